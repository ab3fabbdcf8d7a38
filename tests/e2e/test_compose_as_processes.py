"""What docker-compose.yml starts, started without an engine: same wheel, commands, order and environment, on the loopback.

Only addresses, ports and the topics' prefix differ. Invariant of the containers: services write nowhere but to Kafka, the
database and /tmp, for their disk is read-only.
"""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.stack.service import ServiceProcess
from headrace.devkit.ports import free_ports
from headrace.devkit.served import EngineProcess
from tests.support.broker import topic_prefix
from tests.support.callers import Caller, chat_body
from tests.support.containers import ROOT, compose_file, environment_in
from tests.support.installed import build_wheel, install
from tests.support.postgres import new_database, postgres, programs

pytestmark = pytest.mark.kafka

SERVICES = ("result-delivery", "scheduler", "inference-worker", "ingest")


class ComposeAsProcesses:
    """Starts containers' commands as processes. `bin_folder` has python and headrace, `moved` what stands elsewhere."""

    def __init__(self, bin_folder: Path, folder: Path, moved: dict[str, str]) -> None:
        self._document, self._bin, self._folder = compose_file(), bin_folder, folder
        self._moved = {**moved, "/etc/headrace/policy.toml": str(ROOT / "examples/policy.toml")}
        self._prefix = topic_prefix()
        self.disk = folder / "disk"
        self.disk.mkdir()

    def apply_topics(self) -> str:
        """Runs the container that ends; what it said."""
        argv, env = self._told("topics")
        done = subprocess.run(
            argv, env=env, cwd=self.disk, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def service(self, name: str, health_port: int, api_port: int) -> ServiceProcess:
        """One of the containers that stay."""
        argv, env = self._told(name)
        env |= {"HEADRACE_HEALTH_HOST": "127.0.0.1", "HEADRACE_HEALTH_PORT": str(health_port)}
        if name == "ingest":
            env |= {"HEADRACE_INGEST_HOST": "127.0.0.1", "HEADRACE_INGEST_PORT": str(api_port)}
        return ServiceProcess(
            name,
            ["/bin/sh", "-c", 'cd "$0" && exec "$@"', str(self.disk), *argv],
            env=env,
            log_path=self._folder / f"{name}.log",
            health_port=health_port,
            api_port=api_port if name == "ingest" else None,
        )

    def _told(self, name: str) -> tuple[list[str], dict[str, str]]:
        container: dict[str, Any] = self._document["services"][name]
        program, *rest = container["command"]
        env = environment_in(container, {"HEADRACE_INGEST_ID_KEY": "5a" * 32})
        env = {key: self._elsewhere(value) for key, value in env.items()}
        own = {"PATH": str(self._bin), "HOME": "/nonexistent", "TMPDIR": str(self._folder)}
        return [str(self._bin / program), *rest], own | env | {"HEADRACE_PREFIX": self._prefix}

    def _elsewhere(self, value: str) -> str:
        return next((there for here, there in self._moved.items() if here in value), value)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """PostgreSQL, as in the compose file, where there is one; else a file."""
    found = programs()
    with nullcontext() if found is None else postgres(found) as socket_folder:
        if socket_folder is None:
            yield f"sqlite:///{tmp_path_factory.mktemp('database')}/results.db"
        else:
            yield new_database(socket_folder, "compose")


@pytest.fixture(scope="module")
def stack(kafka: str, database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The API's address and the disk that nobody may write to; everything ends cleanly afterwards."""
    folder = tmp_path_factory.mktemp("compose")
    bin_folder = install(build_wheel(ROOT, folder / "wheel"), folder / "installed")
    with EngineProcess("--model", "smollm2") as engine, ExitStack() as undo:
        moved = {"kafka:9092": kafka, "http://model:8000": engine.url, "@database:5432": database}
        compose = ComposeAsProcesses(bin_folder, folder, moved)
        assert "topics are as they must be" in compose.apply_topics()
        *health, api = free_ports(len(SERVICES) + 1)
        services = [compose.service(name, port, api) for name, port in zip(SERVICES, health, strict=True)]
        for service in services:
            service.launch()
            undo.callback(service.terminate)
        for service in services:
            service.await_ready()
        yield f"http://127.0.0.1:{api}", compose.disk
        statuses = {service.name: service.terminate() for service in reversed(services)}
    assert set(statuses.values()) == {0}, statuses


async def test_the_composed_stack_answers_with_the_keys_of_the_example_policy(
    stack: tuple[str, Path],
) -> None:
    url, disk = stack
    async with Caller(url, "atlas-example-key") as atlas, Caller(url, "cedar-example-key") as cedar:
        waited = await atlas.wait_on_openai(
            chat_body("a container", model="smollm2-135m", max_tokens=8), tier="interactive"
        )
        polled = await cedar.wait_natively(
            chat_body("a container", model="smollm2", max_tokens=8), tier="batch"
        )
    assert (waited.http_status, polled.http_status) == (200, 200)
    assert waited.text == polled.text != ""
    assert list(disk.iterdir()) == []
