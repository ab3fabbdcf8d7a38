"""What tests of the command line share."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.cli.__main__ import main

POLICY = """
[pools.main.models]
m = "m"
[tenants.atlas]
weight = 3
[tenants.birch]
"""
TRACE = "t_s,input_tokens,output_tokens\n" + "".join(f"{n / 10},{100 + n},{5 + n % 40}\n" for n in range(80))
Simulate = Callable[..., tuple[int, str, str]]


@pytest.fixture
def simulate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Simulate:
    """Runs `headrace simulate` on a small trace; its status, what it printed, and what it said on standard error."""
    (tmp_path / "trace.csv").write_text(TRACE)
    (tmp_path / "policy.toml").write_text(POLICY)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        given = [
            "headrace",
            "simulate",
            "--trace",
            "trace.csv",
            "--policy",
            "policy.toml",
            "--slots",
            "2",
            *arguments,
        ]
        monkeypatch.setattr(sys, "argv", given)
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run
