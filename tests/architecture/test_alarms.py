"""Each alarm asks for metrics that exist and leads to a runbook, and each runbook belongs to an alarm."""

import re
from pathlib import Path
from typing import Any

import yaml
from prometheus_client import CollectorRegistry

from headrace.inference_worker.worker_metrics import WorkerMetrics
from headrace.ingest.doors.observed import HttpMetrics
from headrace.result_delivery.observing import DeliveryMetrics
from headrace.runtime.metrics import LoopMetrics, Metrics
from headrace.runtime.policy_watch import PolicyMetrics
from headrace.scheduler.core.counted import Counted
from headrace.scheduler.observing import Observing
from headrace.scheduler.ports import Standing

ROOT = Path(__file__).resolve().parents[2]
RULES: list[dict[str, Any]] = yaml.safe_load((ROOT / "examples/alerts.yaml").read_text())["groups"][0][
    "rules"
]
RUNBOOKS = (ROOT / "docs/runbooks.md").read_text()
METRIC = re.compile(r"headrace_[a-z_]+")
DECISION = re.compile(r'decision=~?"([a-z_|]+)"')


def known_metrics() -> set[str]:
    """Every name that some service's /metrics may show."""
    found: set[str] = set()
    for kind in (Observing, WorkerMetrics, DeliveryMetrics, HttpMetrics, LoopMetrics, PolicyMetrics):
        registry = CollectorRegistry()
        kind(Metrics("any", registry))
        for family in registry.collect():
            ends = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}.get(
                family.type, ("",)
            )
            found |= {family.name + end for end in ends}
    return found


def strange_metrics(expression: str) -> set[str]:
    return set(METRIC.findall(expression)) - known_metrics()


def test_every_alarm_asks_for_metrics_that_exist() -> None:
    assert {rule["alert"]: strange for rule in RULES if (strange := strange_metrics(rule["expr"]))} == {}


def test_every_decision_and_standing_that_an_alarm_names_is_told() -> None:
    named = {name for rule in RULES for found in DECISION.findall(rule["expr"]) for name in found.split("|")}
    assert named
    assert named - set(Counted) == set()
    standings = {name for rule in RULES for name in re.findall(r'standing="(\w+)"', rule["expr"])}
    assert standings
    assert standings <= set(Standing)


def test_every_alarm_has_a_runbook_and_every_runbook_an_alarm() -> None:
    headings = set(re.findall(r"^## (\w+)$", RUNBOOKS, re.MULTILINE))
    assert {rule["alert"] for rule in RULES} == headings
    wanted = {rule["alert"]: f"docs/runbooks.md#{rule['alert'].lower()}" for rule in RULES}
    assert {rule["alert"]: rule["annotations"]["runbook"] for rule in RULES} == wanted


def test_a_metric_that_nobody_tells_is_noticed() -> None:
    assert strange_metrics("rate(headrace_nothing_total[5m]) > headrace_queue_depth") == {
        "headrace_nothing_total"
    }
