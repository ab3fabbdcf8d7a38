"""Everything that a drill runs on: brokers, engines, services, database, and the doors between them. Called by the drill.

Invariant: each service reaches each broker, and each worker its engine, through a door of its own, so that any one connection
can be cut; who judges goes straight to the brokers.
"""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from headrace.cli.stack.plan import Backend
from headrace.cli.stack.processes import Stack
from headrace.devkit.kafka import KafkaCluster
from headrace.devkit.kafka_settings import NodeAddress
from headrace.devkit.ports import LOOPBACK, free_ports
from headrace.devkit.served import EngineProcess
from tests.support.drill.databases import Database, PostgresDatabase, SqliteFile
from tests.support.drill.plan import ENGINES, SERVICES
from tests.support.fault_proxy import FaultProxy
from tests.support.postgres import MISSING, PostgresServer, programs
from tests.support.stacks import FAKE

NODES = 3
WORKERS_ENGINE = {
    "inference-worker": "engine",
    "inference-worker-2": "engine-2",
    "inference-worker-3": "engine",
}
ENGINE_SEEDS = {"engine": 0, "engine-2": 1}
"""Each engine says something else to a prompt, so that pieces of two attempts can't pass for one answer."""
LIMIT = 8
QUICK = {"broker.session.timeout.ms": "3000"}
"""A killed broker's partitions answer again after 3 s and not 9 s, so that a drill has time for more blows."""
TOPICS = "[topics]\nreplication_factor = 3\nmin_insync_replicas = 2\nhistory = 1000000000\n"
"""Nothing is trimmed: the judge wants to see all of it."""
PATIENT_POOL = ("[pools.main.models]", "[pools.main]\nmax_attempts = 20\n[pools.main.models]")
"""So many deaths as a drill deals would else use up an innocent request's attempts."""
PATIENT_TIERS = ('queue_timeout = "10m"', 'queue_timeout = "7d"')
"""On a slow machine the load outlasts the blows; what expires would be honest, and would show nothing."""


@dataclass(frozen=True)
class Stage:
    """What runs. `doors`: by service and by engine, the proxy's ports that lead from or to it."""

    folder: Path
    cluster: KafkaCluster
    engines: Mapping[str, EngineProcess]
    stack: Stack
    database: Database
    proxy: FaultProxy
    doors: Mapping[str, list[int]]

    def journals(self) -> list[Path]:
        """What the engines noted."""
        return [self.folder / f"{name}.jsonl" for name in ENGINES]

    @property
    def limit(self) -> int:
        """How many attempts may be held at a time."""
        return LIMIT * len(WORKERS_ENGINE)


@contextmanager
def staged(folder: Path, *, postgres: bool, settings: Mapping[str, str] = QUICK) -> Iterator[Stage]:
    """All of it, ready; stopped in the end whatever happens. `settings` of the brokers."""
    with ExitStack() as started:
        proxy = started.enter_context(FaultProxy())
        doors = _ClusterDoors(proxy, SERVICES)
        cluster = KafkaCluster(nodes=NODES, settings=settings, node_settings=doors.settings, heap="320m")
        started.callback(cluster.stop)
        cluster.start()
        engines = {
            name: EngineProcess(
                *("--journal", str(folder / f"{name}.jsonl")),
                *("--seed", str(ENGINE_SEEDS[name])),
                log_path=folder / f"{name}.log",
            )
            for name in ENGINES
        }
        for engine in engines.values():
            started.callback(engine.stop)
            engine.start()
        to_engines = {worker: proxy.door(engines[name].port) for worker, name in WORKERS_ENGINE.items()}
        database = _database(started, folder) if postgres else None
        stack = _stack(folder, cluster, doors, to_engines, None if database is None else database.url)
        started.callback(stack.stop, timedelta(seconds=5))
        stack.start()
        into = {
            engine: [to_engines[worker] for worker, name in WORKERS_ENGINE.items() if name == engine]
            for engine in ENGINES
        }
        known = database or SqliteFile(stack.database)
        yield Stage(folder, cluster, engines, stack, known, proxy, {**doors.by_service, **into})


def new_folder(given: Path | None) -> Path:
    """The named folder, which must be empty, or a temporary one. Raises ValueError."""
    folder = given or Path(tempfile.mkdtemp(prefix="headrace-drill-"))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ValueError(
            f"{folder} isn't empty: positions of another run's log would be taken for this one's"
        )
    return folder


def _database(started: ExitStack, folder: Path) -> PostgresDatabase:
    found = programs()
    if found is None:
        raise ValueError(f"{MISSING}, or take --database sqlite")
    server = started.enter_context(PostgresServer(found))
    (folder / "postgres").write_text(str(server.folder))
    return PostgresDatabase(server, "drill")


def _stack(
    folder: Path,
    cluster: KafkaCluster,
    doors: "_ClusterDoors",
    to_engines: Mapping[str, int],
    url: str | None,
) -> Stack:
    backends = [Backend("main", f"http://{LOOPBACK}:{port}", "vllm", LIMIT) for port in to_engines.values()]
    return Stack(
        folder=folder,
        policy=FAKE.replace(*PATIENT_POOL).replace(*PATIENT_TIERS) + TOPICS,
        backends=backends,
        bootstrap=cluster.bootstrap,
        schedulers=2,
        deliveries=2,
        ingests=2,
        database=url,
        kafka_of=doors.bootstrap,
        extra={"inference_worker": {"drain_grace": "5s"}},
        ready_within=timedelta(seconds=120),
    )


class _ClusterDoors:
    """A listener of each broker for each service, advertised as the port of a door before it."""

    def __init__(self, proxy: FaultProxy, services: tuple[str, ...]) -> None:
        self._proxy, self._services = proxy, services
        self.by_service: dict[str, list[int]] = {name: [] for name in services}

    def settings(self, node: NodeAddress) -> dict[str, str]:
        """What this node is told; opens its doors."""
        behind = dict(zip(self._services, free_ports(len(self._services)), strict=True))
        before = {name: self._proxy.door(port) for name, port in behind.items()}
        for name, port in before.items():
            self.by_service[name].append(port)
        own = {"PLAINTEXT": node.port, "CONTROLLER": node.controller_port}
        names = {name: f"DOOR{number}" for number, name in enumerate(self._services)}
        listening = own | {names[name]: port for name, port in behind.items()}
        told = {"PLAINTEXT": node.port} | {names[name]: port for name, port in before.items()}
        return {
            "listeners": _listed(listening),
            "advertised.listeners": _listed(told),
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in listening),
            "inter.broker.listener.name": "PLAINTEXT",
            "num.network.threads": "1",
        }

    def bootstrap(self, service: str) -> str:
        """The brokers as this service sees them."""
        return ",".join(f"{LOOPBACK}:{port}" for port in self.by_service[service])


def _listed(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://{LOOPBACK}:{port}" for name, port in ports.items())
