"""Runs `headrace` as its users do, in a process, and knows what it left running. Called by tests/e2e/test_cli_*."""

import os
import secrets
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import psutil

MARK = "LEFT_BY_TEST"


class CommandLine:
    """`headrace` with a mark in its environment that every process it starts inherits."""

    def __init__(self) -> None:
        self._mark = secrets.token_hex(8)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
        broker = {name: value for name, value in os.environ.items() if name.startswith("HEADRACE_BROKER")}
        cache = {name: value for name, value in os.environ.items() if name == "HEADRACE_CACHE"}
        self.env = {**kept, **broker, **cache, MARK: self._mark}

    def run(
        self, *arguments: str, within: timedelta = timedelta(minutes=4)
    ) -> subprocess.CompletedProcess[str]:
        """Runs it to its end."""
        return subprocess.run(
            self._argv(*arguments),
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
            timeout=within.total_seconds(),
        )

    def start(self, *arguments: str, errors: Path) -> subprocess.Popen[str]:
        """Starts it; its standard output is a pipe, its errors go to a file."""
        with errors.open("w") as sink:
            return subprocess.Popen(
                self._argv(*arguments), env=self.env, stdout=subprocess.PIPE, stderr=sink, text=True
            )

    def left_running(self) -> list[str]:
        """Command lines of processes that carry the mark."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get(MARK) == self._mark:
                    found.append(" ".join(process.cmdline()))
        return found

    def _argv(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "headrace.cli", *arguments]
