"""`headrace simulate`: tables, JSON, two policy files, and a sentence for whatever can't be meant."""

from pathlib import Path

import msgspec
import pytest

from headrace.cli.simulation_options import seeds_of, shares_of, slacks_of
from tests.unit.cli.conftest import POLICY, Simulate


def test_policies_are_compared_in_tables(simulate: Simulate) -> None:
    status, out, err = simulate("--compare", "fifo,headrace", "--load", "2", "--seeds", "0..1")
    assert (status, err) == (0, "")
    for told in (
        "Waits by tier: fifo",
        "Waits by tier: headrace",
        "Waits by tenant: headrace",
        "The pool",
        "atlas",
        "standard",
        " ±",
    ):
        assert told in out


def test_all_tables_fit_80_columns_however_many_policies_there_are(simulate: Simulate) -> None:
    _, few, _ = simulate("--compare", "fifo,headrace,edf", "--load", "2", "--seeds", "0..1")
    names = "fifo,fifo-drop,strict,edf,round-robin,headrace"
    _, many, _ = simulate("--compare", names, "--load", "2", "--seeds", "0..2", "--slack", "1s..2s")
    assert max(len(line) for text in (few, many) for line in text.splitlines()) <= 80
    heads = [line.split()[1:] for line in many.splitlines() if line.split()[:1] == ["figure"]]
    assert [name for head in heads for name in head] == names.split(",")
    assert any(line.split() == ["figure", "fifo", "headrace", "edf"] for line in few.splitlines())


def test_for_programs_there_is_json_of_each_run_and_of_all(simulate: Simulate) -> None:
    status, out, _ = simulate("--json", "--seeds", "3..4", "--load", "2", "--slack", "1s..2s")
    told = msgspec.json.decode(out)["headrace"]
    assert status == 0
    assert [run["all"]["requests"] > 0 for run in told["runs"]] == [True, True]
    assert told["summary"]["seeds"] == 2
    assert told["summary"]["promised_gap"] >= told["summary"]["worst_gap"]
    assert 0 < told["summary"]["goodput"]["mean"] <= told["summary"]["busy"]["mean"] <= 1


def test_a_changed_weight_is_seen_beside_the_old_one(simulate: Simulate) -> None:
    Path("new.toml").write_text(POLICY.replace("weight = 3", "weight = 1"))
    status, out, _ = simulate("--json", "--load", "3", "--seeds", "0", "--against", "new.toml")
    told = msgspec.json.decode(out)
    before, after = (
        told[name]["summary"]["tenants"]["atlas"]["p50_ms"] for name in ("headrace", "headrace, new.toml")
    )
    assert status == 0
    assert after["mean"] > 1.5 * before["mean"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--trace", "none.csv"], "none.csv: the trace can't be read (No such file or directory)"),
        (["--trace", "bad.csv"], "bad.csv, line 2: output_tokens is -3, which isn't between 0 and 100000000"),
        (["--trace", "short.csv"], "short.csv: the trace has no column input_tokens"),
        (
            ["--policy", "floors.toml"],
            "tiers.*.floor_percent: the floors of all tiers add up to more than 100",
        ),
        (["--policy", "none.toml"], "none.toml: the policy file can't be read (No such file or directory)."),
        (["--tiers", "gold=1"], "the policy has no tier gold; it has interactive, standard, batch"),
        (["--tiers", "batch=2"], '--tiers is "batch=2": expected shares from 0 to 1'),
        (["--pool", "other"], "the policy has no pool other; it has main"),
        (["--compare", "fifo,hedrace"], '--compare names hedrace: did you mean "headrace"?'),
        (["--seeds", "9..1"], '--seeds is "9..1": expected 1 to 10000 seeds'),
        (["--seeds", "some"], '--seeds is "some": expected numbers such as 0..19'),
        (["--slack", "5s"], '--slack is "5s": expected two durations'),
        (["--token-time", "0ms"], '--token-time is "0ms": expected more than nothing'),
        (["--requests", "1000"], "1000 requests are wanted, but the trace has 80"),
        (["--half", "third"], 'the half of a trace is first, second or whole, not "third"'),
        (["--slots", "0"], "greater than or equal to 1"),
    ],
)
def test_what_cannot_be_meant_is_told_with_status_2(
    simulate: Simulate, arguments: list[str], sentence: str
) -> None:
    Path("bad.csv").write_text("t_s,input_tokens,output_tokens\n0,1,-3\n")
    Path("short.csv").write_text("t_s,output_tokens\n0,1\n")
    Path("floors.toml").write_text(
        POLICY + "[tiers.a]\nweight = 1\nfloor_percent = 60\n[tiers.b]\nweight = 1\nfloor_percent = 60\n"
    )
    status, out, err = simulate(*arguments)
    assert (status, out) == (2, "")
    assert sentence in err
    assert "Traceback" not in err


def test_options_are_read_as_they_are_written() -> None:
    assert list(seeds_of("7")) == [7]
    assert list(seeds_of("0..2")) == [0, 1, 2]
    assert shares_of("interactive=0.25,batch=0.75") == {"interactive": 0.25, "batch": 0.75}
    assert slacks_of("5s..30s", ["a", "b"]) == {"a": (5_000, 30_000), "b": (5_000, 30_000)}
    assert slacks_of("a=1s..2s,b=0s..500ms", ["a", "b", "c"]) == {"a": (1_000, 2_000), "b": (0, 500)}
    assert shares_of(None) == {}
    assert slacks_of(None, ["a"]) == {}
