"""What docker-compose.yml must keep to, each rule a generator of faults. Called by tests/architecture/test_containers.py."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from headrace.cli.__main__ import application
from headrace.cli.service_packages import settings_class
from headrace.devkit.model import ALIAS, SLOTS
from headrace.devkit.model_server import read_arguments
from headrace.inference_worker.settings import WorkerSettings
from headrace.runtime.policy_file import load_policy
from headrace.runtime.settings import ServiceSettings
from headrace.runtime.settings_loading import load
from headrace.runtime.settings_sources import PREFIX, env_names
from headrace.runtime.supervisor import GRACE
from tests.support.containers import ROOT, SECRET, environment_in, ours, stages

GIVEN = {"HEADRACE_INGEST_ID_KEY": "0" * 64}
SERVICES = ("ingest", "scheduler", "inference-worker", "result-delivery")
POLICY = ROOT / "examples/policy.toml"


def faults_in_compose(document: dict[str, Any]) -> list[str]:
    rules = (_images, _kept, _closed, _environment, _commands, _order, _grace, _health, _secrets)
    return [
        f"{name}: {fault}"
        for name in document["services"]
        for rule in rules
        for fault in rule(document, name)
    ]


def _images(document: dict[str, Any], name: str) -> Iterator[str]:
    one = document["services"][name]
    tag = str(one["image"]).partition(":")[2]
    if tag in ("", "latest"):
        yield "its image has no version"
    if "build" in one and one["build"]["target"] not in stages((ROOT / "Dockerfile").read_text()):
        yield "its build has no such target"
    if one["image"].startswith("apache/kafka") and not any(f":{tag} " in str(jar) for jar in _kafka_jars()):
        yield "its Kafka is not the version that the tests run on"


def _kept(document: dict[str, Any], name: str) -> Iterator[str]:
    """Where a broker and a database write is a volume: else what was accepted is gone with the container."""
    one = document["services"][name]
    written = {
        "kafka": one.get("environment", {}).get("KAFKA_LOG_DIRS"),
        "database": "/var/lib/postgresql/data",
    }
    kept = {volume.split(":")[1]: volume.split(":")[0] for volume in one.get("volumes", ())}
    if name in written and kept.get(str(written[name])) not in document["volumes"]:
        yield f"what it writes to {written[name]} is in no volume"


def _kafka_jars() -> list[str]:
    lock = (ROOT / "libs/devkit/src/headrace/devkit/kafka.lock").read_text()
    return [line for line in lock.splitlines() if line.startswith("org.apache.kafka:")]


def _closed(document: dict[str, Any], name: str) -> Iterator[str]:
    one = document["services"][name]
    if name in ours(document):
        if not (
            one.get("read_only")
            and one.get("cap_drop") == ["ALL"]
            and "no-new-privileges:true" in one["security_opt"]
        ):
            yield "it is not closed: read_only, cap_drop, no-new-privileges"
        if one.get("tmpfs") != ["/tmp"]:
            yield "it has no /tmp to write to, or more than that"
    for port in one.get("ports", ()):
        if not port.startswith("127.0.0.1:"):
            yield f"port {port} is open beyond this machine"


def _package(one: dict[str, Any]) -> str | None:
    command = one.get("command", [])
    return command[2] if command[:2] == ["python", "-m"] else None


def _settings(name: str) -> type[ServiceSettings]:
    return settings_class(name) if name in SERVICES else ServiceSettings


def _environment(document: dict[str, Any], name: str) -> Iterator[str]:
    if name not in (*SERVICES, "topics"):
        return
    one, cls = document["services"][name], _settings(name)
    known = {env for field in cls.model_fields for env in env_names(cls, field)}
    yield from (
        f"{env} is no setting of it"
        for env in one["environment"]
        if env.startswith(PREFIX) and env not in known
    )
    settings = load(cls, environment_in(one, GIVEN))
    mounted = {volume.split(":")[1]: volume.split(":")[0] for volume in one.get("volumes", ())}
    if not (ROOT / mounted.get(str(settings.policy), "missing")).is_file():
        yield f"its policy {settings.policy} is not mounted from a file that exists"
    yield from _addresses(document, settings)
    if isinstance(settings, WorkerSettings):
        yield from _worker(settings)


def _addresses(document: dict[str, Any], settings: ServiceSettings) -> Iterator[str]:
    """Every host and port in its settings is a container that listens there."""
    listening = {
        "kafka": re.findall(
            r"PLAINTEXT://:(\d+)", document["services"]["kafka"]["environment"]["KAFKA_LISTENERS"]
        )[:1],
        "database": ["5432"],
        "model": [str(read_arguments(document["services"]["model"]["command"][3:]).port)],
    }
    texts = [str(value) for value in settings.model_dump().values()]
    for host, port in (
        found for text in texts for found in re.findall(r"(?:^|//|@)([a-z][\w-]*):(\d+)", text)
    ):
        if port not in listening.get(host, ()):
            yield f"nothing listens at {host}:{port}"
    if getattr(settings, "database", "postgresql:").startswith("sqlite"):
        yield "its SQLite file would lie on a read-only disk"


def _worker(settings: WorkerSettings) -> Iterator[str]:
    pools = load_policy(POLICY).pools
    if settings.pool not in pools or ALIAS not in pools[settings.pool].models.values():
        yield f"pool {settings.pool} of the policy has no model {ALIAS}"
    if settings.limit > SLOTS:
        yield f"its limit is more than the {SLOTS} slots of the model"


def _commands(document: dict[str, Any], name: str) -> Iterator[str]:
    one = document["services"][name]
    if name not in ours(document):
        return
    command, package = one["command"], _package(one)
    expected = "headrace.devkit.model_server" if name == "model" else f"headrace.{name.replace('-', '_')}"
    if name == "topics":
        if command[0] != "headrace" or " ".join(command[1:]) not in _command_lines():
            yield f"there is no command {command}"
    elif package != expected:
        yield f"it runs {package}, not {expected}"
    elif name == "model" and read_arguments(command[3:]).host != "0.0.0.0":  # noqa: S104 inside a container
        yield "others can't reach it"


def _command_lines() -> set[str]:
    return {
        f"{group.name} {command.name}"
        for group in application().registered_groups
        for command in getattr(group.typer_instance, "registered_commands", ())
    }


def _order(document: dict[str, Any], name: str) -> Iterator[str]:
    for other, how in document["services"][name].get("depends_on", {}).items():
        there = document["services"].get(other)
        if there is None:
            yield f"it depends on {other}, which isn't there"
        elif how["condition"] == "service_healthy" and "test" not in there.get("healthcheck", {}):
            yield f"it waits for the health of {other}, which tells none"
        elif how["condition"] == "service_completed_successfully" and there["restart"] == "unless-stopped":
            yield f"it waits for the end of {other}, which never ends"


def _grace(document: dict[str, Any], name: str) -> Iterator[str]:
    one = document["services"][name]
    if name not in SERVICES:
        return
    settings = load(_settings(name), environment_in(one, GIVEN))
    drains = GRACE
    if isinstance(settings, WorkerSettings):
        drains = settings.drain_grace + 2 * settings.timings().leave_within
    if timedelta(seconds=int(one["stop_grace_period"].removesuffix("s"))) <= drains:
        yield f"it is killed while it drains, which may take {drains.total_seconds():.0f} s"


def _health(document: dict[str, Any], name: str) -> Iterator[str]:
    one = document["services"][name]
    check = " ".join(one.get("healthcheck", {}).get("test", ()))
    if name in SERVICES:
        settings = load(_settings(name), environment_in(one, GIVEN))
        if f":{settings.health_port}/readyz" not in check:
            yield "its health is asked where it doesn't answer"
        ports = [port.split(":")[-1] for port in one.get("ports", ())]
        if name == "ingest" and ports != [str(getattr(settings, "port", None))]:
            yield "its open port is not the one it listens on"
    if name == "model" and f":{read_arguments(one['command'][3:]).port}/health" not in check:
        yield "its health is asked where it doesn't answer"


def _secrets(document: dict[str, Any], name: str) -> Iterator[str]:
    for env, value in document["services"][name].get("environment", {}).items():
        if SECRET.search(env) and not str(value).startswith("${"):
            yield f"{env} is written down"
