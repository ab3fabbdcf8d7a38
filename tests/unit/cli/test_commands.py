"""The commands that need no broker, and what every command does with an error."""

import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from headrace.cli.__main__ import main
from headrace.cli.commands import pools
from headrace.cli.trouble import sentence_of
from headrace.contracts.policy import hash_key

POLICY = Path(__file__).resolve().parents[3] / "examples" / "policy.toml"
Headrace = Callable[..., tuple[int, str, str]]


@pytest.fixture
def headrace(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Headrace:
    """Runs a command line; its status, what it printed, and what it said on standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["headrace", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run


def test_a_new_key_is_random_and_its_digest_is_the_policys(headrace: Headrace) -> None:
    made = [msgspec.json.decode(headrace("keys", "new", "--json")[1]) for _ in range(2)]
    assert made[0]["key"] != made[1]["key"]
    assert made[0]["sha256"] == hash_key(made[0]["key"])
    assert made[0]["sha256"] in made[0]["policy_line"]


def test_a_person_gets_the_key_and_the_line_for_the_policy(headrace: Headrace) -> None:
    status, out, _ = headrace("keys", "new")
    assert status == 0
    assert "key_sha256 = [" in out


def test_topics_are_shown_without_a_broker(headrace: Headrace) -> None:
    status, out, _ = headrace("topics", "show", "--policy", str(POLICY), "--prefix", "t.", "--json")
    names = [topic["name"] for topic in msgspec.json.decode(out)]
    assert status == 0
    assert {"t.requests.smollm2.batch", "t.results", "t.work.smollm2"} <= set(names)
    assert "t.results" in headrace("topics", "show", "--policy", str(POLICY), "--prefix", "t.")[1]


def test_a_missing_policy_is_told_with_what_to_give(
    headrace: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEADRACE_POLICY", raising=False)
    status, out, err = headrace("topics", "show")
    assert (status, out) == (1, "")
    assert "--policy" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("config", "show", "nonsense"),
        ("run", "nonsense"),
        ("topics", "show", "--prefix", "not a topic"),
        ("dev", "up", "--engine", "--model"),
        ("dev", "engine", "--kv-blocks", "10"),
        ("dev", "engine", "--output-tokens", "9-3"),
        ("dev", "engine", "--time-scale", "0"),
    ],
)
def test_an_error_is_one_sentence_and_a_status(headrace: Headrace, arguments: tuple[str, ...]) -> None:
    status, out, err = headrace(*arguments)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("headrace: ")


def test_the_example_policy_is_good(headrace: Headrace) -> None:
    status, out, _ = headrace("policy", "check", str(POLICY), "--json")
    checked = msgspec.json.decode(out)
    assert (status, checked["mistakes"], checked["remarks"]) == (0, [], [])


def test_every_mistake_of_a_policy_is_told_at_once(headrace: Headrace, tmp_path: Path) -> None:
    wrong = tmp_path / "policy.toml"
    wrong.write_text('[pools.a]\nmodels = 3\n[tiers.fast]\nweight = 1\nqueue_timeout = "soon"\n')
    status, out, _ = headrace("policy", "check", str(wrong))
    assert status == 1
    assert "pools.a.models" in out
    assert "tiers.fast.queue_timeout" in out


def test_a_tenant_nobody_can_be_is_remarked_on(headrace: Headrace, tmp_path: Path) -> None:
    lonely = tmp_path / "policy.toml"
    lonely.write_text('[pools.a.models]\nm = "m"\n[tenants.ghost]\n')
    status, out, _ = headrace("policy", "check", str(lonely))
    assert status == 0
    assert "tenants.ghost has no key" in out


def test_an_unforeseen_error_says_how_to_see_more() -> None:
    assert "HEADRACE_TRACEBACK=1" in sentence_of(RuntimeError("broken"))
    assert sentence_of(ExceptionGroup("tasks", [ValueError("expected a port")])) == "expected a port"
    assert sentence_of(FileNotFoundError(2, "No such file", "x.toml")) == "x.toml: No such file"


@pytest.mark.parametrize("service", ["ingest", "scheduler", "inference-worker", "result-delivery"])
def test_every_service_explains_its_settings_even_when_some_are_missing(
    headrace: Headrace, service: str
) -> None:
    _, out, _ = headrace("config", "show", service, "--json")
    shown = msgspec.json.decode(out)
    assert {"kafka", "prefix", "policy"} <= {setting["name"] for setting in shown["settings"]}
    assert all(setting["description"] for setting in shown["settings"])


def test_the_speeds_of_the_engine_are_told_without_starting_one(headrace: Headrace) -> None:
    status, out, _ = headrace("dev", "engine", "--table", "--json")
    rows = {(row["profile"], row["running x context"]): row for row in msgspec.json.decode(out)}
    assert status == 0
    assert rows["h100-llama8b", "64 x 1024"]["step ms"] == "10.99"
    document = (POLICY.parents[1] / "docs" / "engine.md").read_text()
    assert [
        row for (_, at), row in rows.items() if f"{at} | {row['step ms']} | {row['tokens/s']}" not in document
    ] == []


def test_a_move_with_a_nonsensical_patience_orders_nothing(
    headrace: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "logs_of", lambda _settings: pytest.fail("nothing is to be ordered"))
    move = ("pools", "move", "smollm2", "--to", "two", "--policy", str(POLICY), "--within", "soon")
    status, out, err = headrace(*move)
    assert (status, out) == (1, "")
    assert '--within is "soon"' in err


def test_a_wrong_option_is_told_with_its_own_value_and_not_the_environments(
    headrace: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_KAFKA", "127.0.0.1:9092")
    status, _, err = headrace("workers", "show", "--policy", str(POLICY), "--kafka", "nonsense")
    assert status == 1
    assert '"nonsense"' in err
    assert "127.0.0.1" not in err
