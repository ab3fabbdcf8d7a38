"""docker-compose.yml as far as text tells: closed, pinned, and in agreement with code, policy and itself.

No engine runs here: tests/e2e/test_compose_as_processes.py starts the same commands with the same environment.
"""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.compose_rules import faults_in_compose
from tests.support.containers import (
    ROOT,
    MissingVariableError,
    compose_file,
    environment_in,
    interpolated,
    ours,
)


def without(key: str) -> Callable[[dict[str, Any]], object]:
    return lambda one: one.pop(key)


def put(at: str, key: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda one: (one[at] if at else one).__setitem__(key, value)


def test_the_compose_file_has_no_fault() -> None:
    assert faults_in_compose(compose_file()) == []


@pytest.mark.parametrize(
    ("service", "change", "fault"),
    [
        ("kafka", put("", "image", "apache/kafka:latest"), "no version"),
        ("kafka", put("", "image", "apache/kafka:3.9.0"), "not the version"),
        ("kafka", put("environment", "KAFKA_LOG_DIRS", "/tmp/logs"), "is in no volume"),
        ("database", without("volumes"), "is in no volume"),
        ("scheduler", put("", "image", "headrace"), "no version"),
        ("scheduler", put("build", "target", "runs"), "no such target"),
        ("scheduler", without("read_only"), "not closed"),
        ("scheduler", put("environment", "HEADRACE_DATABASE", "x"), "HEADRACE_DATABASE is no setting"),
        ("scheduler", without("volumes"), "not mounted"),
        ("scheduler", put("environment", "HEADRACE_KAFKA", "kafka:9093"), "nothing listens at kafka:9093"),
        ("scheduler", put("", "command", ["python", "-m", "headrace.schedule"]), "it runs headrace.schedule"),
        ("scheduler", put("", "depends_on", {"topic": {"condition": "service_started"}}), "isn't there"),
        ("scheduler", put("", "stop_grace_period", "10s"), "killed while it drains"),
        ("scheduler", put("environment", "HEADRACE_HEALTH_PORT", "9001"), "doesn't answer"),
        ("topics", put("", "command", ["headrace", "topics", "create"]), "there is no command"),
        ("topics", put("", "restart", "unless-stopped"), "never ends"),
        ("model", put("", "command", ["python", "-m", "headrace.devkit.model_server", "--port", "8000"]), "can't reach"),
        ("inference-worker", put("environment", "HEADRACE_INFERENCE_WORKER_POOL", "other"), "pool other"),
        ("inference-worker", put("environment", "HEADRACE_INFERENCE_WORKER_LIMIT", "5"), "more than the 4 slots"),
        ("result-delivery", put("environment", "HEADRACE_DATABASE", "sqlite:///x.db"), "read-only disk"),
        ("ingest", put("", "ports", ["8080:8080"]), "open beyond this machine"),
        ("ingest", put("environment", "HEADRACE_INGEST_PORT", "8081"), "not the one it listens on"),
        ("ingest", put("environment", "HEADRACE_INGEST_ID_KEY", "0" * 64), "is written down"),
    ],
)  # fmt: skip
def test_a_fault_in_the_compose_file_is_noticed(
    service: str, change: Callable[[dict[str, Any]], object], fault: str
) -> None:
    document = compose_file()
    document["services"][service]["environment"] = dict(document["services"][service].get("environment", {}))
    change(document["services"][service])
    assert fault in "\n".join(faults_in_compose(document))


def test_without_a_key_for_ids_compose_says_what_to_set() -> None:
    with pytest.raises(MissingVariableError, match="openssl rand -hex 32"):
        environment_in(compose_file()["services"]["ingest"], {})


def test_the_images_carry_the_version_of_the_wheel() -> None:
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    assert {one["image"].partition(":")[2] for one in ours(compose_file()).values()} == {version[1]}


def test_variables_are_replaced_as_compose_does_it() -> None:
    assert interpolated("a${B:-c}d${E}", {}) == "acd"
    assert interpolated("a${B:-c}d", {"B": "x"}) == "axd"
