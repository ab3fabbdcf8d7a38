"""All services as child processes on one machine, on a real broker. See Stack.

Called by `headrace dev up`, the demo and end-to-end tests. Invariant: nothing it starts outlives it or its own process
(devkit's leash), and a failed start leaves nothing running.
"""

import os
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Self

from headrace.bus.topic_check import apply_topics
from headrace.cli.brokers import administrator
from headrace.cli.options import topics_of
from headrace.cli.service_packages import settings_class
from headrace.cli.stack.plan import Backend, admit
from headrace.cli.stack.service import GRACE, READY_WITHIN, ServiceProcess
from headrace.contracts.policy import Policy
from headrace.devkit.kafka import KafkaCluster
from headrace.devkit.ports import free_ports
from headrace.devkit.started import Started
from headrace.runtime.policy_file import load_policy
from headrace.runtime.settings import ServiceSettings
from headrace.runtime.settings_sources import PREFIX, env_names

Extra = Mapping[str, Mapping[str, object]]
"""Further settings by service name with underscores, then by field: {"ingest": {"log_level": "debug"}}."""


class Stack(Started):
    """A worker for each backend, and as many of each other service as is said; ready when `start` returns.

    `folder` gets policy.toml, results.db and logs/. `bootstrap` None: starts a broker of its own. `policy` is TOML;
    tenants without a key get one, in `keys`. `port` is ingest's, 0 a free one. `grace` is what each service gets to
    drain. `extra` settings win over the stack's. `database` is a URL, None: an SQLite file in the folder. `kafka_of` gives
    the address of the brokers that a service is told, by its name. `awaiting` is told whose readiness is waited for.
    Raises StackFailed and whatever the broker or the topics raise.
    """

    def __init__(
        self,
        *,
        folder: Path,
        policy: str,
        backends: Sequence[Backend],
        bootstrap: str | None = None,
        prefix: str = "headrace.",
        keys: Mapping[str, str] | None = None,
        schedulers: int = 1,
        deliveries: int = 1,
        ingests: int = 1,
        database: str | None = None,
        kafka_of: Callable[[str], str] | None = None,
        port: int = 0,
        extra: Extra | None = None,
        grace: timedelta = GRACE,
        ready_within: timedelta = READY_WITHIN,
        awaiting: Callable[[str], None] | None = None,
    ) -> None:
        admitted = admit(policy)
        self.keys = {**admitted.keys, **(keys or {})}
        self.folder, self.prefix = folder, prefix
        self._policy_text, self._backends = admitted.text, list(backends)
        self._bootstrap, self._extra = bootstrap, dict(extra or {})
        self._schedulers, self._deliveries, self._ingests = schedulers, deliveries, ingests
        self._database_url, self._kafka_of = database, kafka_of
        self._grace, self._ready_within = grace, ready_within
        self._awaiting = awaiting or (lambda _: None)
        self._id_key = secrets.token_hex(32)
        self._ingest_port = port
        self._ingest_ports: dict[str, int] = {}
        self._broker: KafkaCluster | None = None
        self.services: dict[str, ServiceProcess] = {}

    @property
    def bootstrap(self) -> str:
        """The broker's address. Raises RuntimeError before start() when the broker is the stack's own."""
        if self._bootstrap is not None:
            return self._bootstrap
        if self._broker is None:
            raise RuntimeError("the stack has no broker before start()")
        return self._broker.bootstrap

    @property
    def url(self) -> str:
        """Where ingest answers, without a slash at the end."""
        return f"http://127.0.0.1:{self._ingest_port}"

    @property
    def urls(self) -> list[str]:
        """Where each ingest answers, the first first."""
        return [f"http://127.0.0.1:{port}" for port in self._ingest_ports.values()]

    @property
    def database(self) -> Path:
        """The SQLite file of results."""
        return self.folder / "results.db"

    @property
    def policy_path(self) -> Path:
        """The policy file that all services read."""
        return self.folder / "policy.toml"

    @property
    def pids(self) -> list[int]:
        """Every process it ever started, the broker's too."""
        broker = [self._broker.pid()] if self._broker is not None else []
        return broker + [pid for service in self.services.values() for pid in service.pids]

    @property
    def ingest(self) -> ServiceProcess:
        """The first ingest."""
        return self.services["ingest"]

    @property
    def scheduler(self) -> ServiceProcess:
        """The first scheduler; more are `services["scheduler-2"]` and so on."""
        return self.services["scheduler"]

    @property
    def worker(self) -> ServiceProcess:
        """The first backend's worker; more are `services["inference-worker-2"]` and so on."""
        return self.services["inference-worker"]

    @property
    def delivery(self) -> ServiceProcess:
        """The first result-delivery."""
        return self.services["result-delivery"]

    def start(self) -> Self:
        """Returns when every service is ready; on an error everything is stopped again."""
        with ExitStack() as undo:
            undo.callback(self.stop)
            (self.folder / "logs").mkdir(parents=True, exist_ok=True)
            self.policy_path.write_text(self._policy_text)
            policy = load_policy(self.policy_path)
            if self._bootstrap is None:
                self._broker = KafkaCluster().start()
            self.apply_topics(policy)
            self._launch()
            undo.pop_all()
        return self

    def apply_topics(self, policy: Policy) -> None:
        """Creates this prefix's topics."""
        settings = ServiceSettings(kafka=self.bootstrap, prefix=self.prefix)
        with administrator(settings) as topics:
            apply_topics(topics, topics_of(policy, self.prefix))

    def stop(self, grace: timedelta | None = None) -> None:
        """Drains in order: no new requests, then what workers hold, then what is to be committed. Twice is no error."""
        for name in ("ingest", "inference-worker", "scheduler", "result-delivery"):
            group = [one for key, one in self.services.items() if key.startswith(name) and one.pids]
            for service in group:
                service.ask_to_end()
            for service in group:
                service.await_end(self._grace if grace is None else grace)
        if self._broker is not None:
            self._broker.stop()

    def _launch(self) -> None:
        ingests = _replicas("ingest", self._ingests)
        first, *others = free_ports(self._ingests)
        self._ingest_port = self._ingest_port or first
        self._ingest_ports = dict(zip(ingests, [self._ingest_port, *others], strict=True))
        names = self._names()
        for (name, (kind, own)), port in zip(names.items(), free_ports(len(names)), strict=True):
            self.services[name] = self._service(name, kind, port, own)
        for service in self.services.values():
            service.launch()
        for service in self.services.values():
            self._awaiting(service.name)
            service.await_ready(self._ready_within)

    def _names(self) -> dict[str, tuple[str, dict[str, object]]]:
        """Each service's name, its package, and the settings that only it has."""
        file = f"sqlite:////{str(self.database.absolute()).lstrip('/')}"
        database: dict[str, object] = {"database": self._database_url or file}
        deliveries = _replicas("result-delivery", self._deliveries)
        named: dict[str, tuple[str, dict[str, object]]] = dict.fromkeys(
            deliveries, ("result_delivery", database)
        )
        schedulers = _replicas("scheduler", self._schedulers)
        named |= {name: ("scheduler", {"replicas": ",".join(schedulers)}) for name in schedulers}
        for number, backend in enumerate(self._backends, start=1):
            own = {
                "pool": backend.pool,
                "backend_url": backend.url,
                "backend_kind": backend.kind,
                "limit": backend.limit,
            }
            named[_numbered("inference-worker", number)] = ("inference_worker", own)
        for name, port in self._ingest_ports.items():
            named[name] = ("ingest", {**database, "port": port, "id_key": self._id_key})
        return named

    def _service(self, name: str, kind: str, health_port: int, own: dict[str, object]) -> ServiceProcess:
        shared = {
            "kafka": self._kafka_of(name) if self._kafka_of else self.bootstrap,
            "prefix": self.prefix,
            "policy": self.policy_path,
            "name": name,
            "health_port": health_port,
        }
        env = environment_of(settings_class(kind), {**shared, **own, **self._extra.get(kind, {})})
        return ServiceProcess(
            name,
            [sys.executable, "-m", f"headrace.{kind}"],
            env=env,
            log_path=self.folder / "logs" / f"{name}.log",
            health_port=health_port,
            api_port=self._ingest_ports.get(name),
        )


def environment_of(settings: type[ServiceSettings], values: Mapping[str, object]) -> dict[str, str]:
    """A child's environment: ours without any HEADRACE_ name, and these values under the names the service reads.

    Raises ValueError for a field that the service doesn't have.
    """
    if unknown := set(values) - set(settings.model_fields):
        raise ValueError(f"{settings.__name__} has no {', '.join(sorted(unknown))}")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    return inherited | {env_names(settings, name)[0]: str(value) for name, value in values.items()}


def _replicas(name: str, count: int) -> list[str]:
    return [_numbered(name, number) for number in range(1, count + 1)]


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"
