"""`headrace topics` on a real broker."""

from pathlib import Path

import msgspec
import pytest

from tests.support.command_line import CommandLine

POLICY = str(Path(__file__).resolve().parents[2] / "examples" / "policy.toml")


@pytest.mark.kafka
def test_topics_are_missed_then_made_then_as_they_must_be(kafka: str, prefix: str) -> None:
    headrace, options = CommandLine(), ("--policy", POLICY, "--kafka", kafka, "--prefix", prefix)
    missed = headrace.run("topics", "check", *options)
    assert missed.returncode == 1
    assert f"{prefix}results" in missed.stdout
    assert "headrace topics apply" in missed.stdout
    applied = headrace.run("topics", "apply", *options, "--json")
    assert applied.returncode == 0, applied.stderr
    made = msgspec.json.decode(applied.stdout)
    assert len(made["done"]) == made["topics"]
    assert headrace.run("topics", "check", *options).returncode == 0
    assert "nothing was done" in headrace.run("topics", "apply", *options).stdout


def test_a_broker_that_does_not_answer_is_told_in_a_sentence() -> None:
    done = CommandLine().run("topics", "check", "--policy", POLICY, "--kafka", "127.0.0.1:1")
    assert done.returncode == 1
    assert done.stderr.startswith("headrace: ")
    assert "Traceback" not in done.stderr
