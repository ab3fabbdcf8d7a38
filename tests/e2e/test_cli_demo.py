"""`headrace demo --once`: the real broker, the real model, three tenants, every prompt answered once."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from headrace.cli.demo.prompts import WEIGHTS, asks
from tests.support.command_line import CommandLine
from tests.support.eventually import eventually


@pytest.mark.kafka
@pytest.mark.model
def test_the_demo_answers_every_prompt_once_and_leaves_no_process() -> None:
    headrace = CommandLine()
    done = headrace.run("demo", "--once", within=timedelta(minutes=8))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    events: list[dict[str, Any]] = [msgspec.json.decode(line) for line in done.stdout.splitlines()]
    by_kind = {kind: [event for event in events if event["event"] == kind] for kind in KINDS}
    assert [len(by_kind[kind]) for kind in ("preflight", "ready", "failed", "summary")] == [1, 1, 0, 1]
    numbers = {ask.number for ask in asks()}
    for kind in ("accepted", "answered"):
        assert sorted(event["number"] for event in by_kind[kind]) == sorted(numbers)
    assert len({event["id"] for event in by_kind["answered"]}) == len(numbers)
    assert all(event["text"] and event["tokens"] for event in by_kind["answered"])
    _check_summary(by_kind["summary"][0], len(numbers))
    eventually(lambda: not headrace.left_running(), "no process left")


KINDS = ("preflight", "ready", "accepted", "answered", "failed", "summary")


def _check_summary(summary: dict[str, Any], prompts: int) -> None:
    assert (summary["good"], summary["accepted"], summary["answered"]) == (True, prompts, prompts)
    assert summary["problems"] == []
    assert {share["tenant"] for share in summary["shares"]} == set(WEIGHTS)
    assert sum(share["got"] for share in summary["shares"]) == pytest.approx(1)
    assert all(waits["p50_ms"] <= waits["p95_ms"] for waits in summary["waits"])
    assert summary["curl"].startswith("curl -")
