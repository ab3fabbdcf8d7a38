"""A scheduler as a process of its own, where its memory or death matters. Used by tests/integration/scheduler, benchmarks."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.request import urlopen

import msgspec
import psutil


class Replica:
    """One replica, with a log of its own in `folder`, and the policy file that is there."""

    def __init__(
        self, folder: Path, bootstrap: str, prefix: str, name: str, *, replicas: Sequence[str] = ()
    ) -> None:
        env = {
            **os.environ, "HEADRACE_KAFKA": bootstrap, "HEADRACE_PREFIX": prefix, "HEADRACE_NAME": name,
            "HEADRACE_POLICY": str(folder / "policy.toml"), "HEADRACE_SCHEDULER_REPLICAS": ",".join(replicas),
        }  # fmt: skip
        self._log = folder / f"{name}.log"
        with self._log.open("a") as log:
            self._before = log.tell()
            argv = [sys.executable, "-m", "headrace.scheduler"]
            self._process = subprocess.Popen(argv, env=env, stdout=log, stderr=log)

    def has_started(self) -> bool:
        """Whether it has said so."""
        return self._health_port() is not None

    def kill(self) -> None:
        """As the kernel does when memory is short."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        """Politely, if it still runs."""
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait(30)

    @property
    def resident_mib(self) -> float:
        """Its memory."""
        return float(psutil.Process(self._process.pid).memory_info().rss) / 2**20

    def metric(self, name: str) -> int:
        """A metric of it, summed over its labels; 0 where it has told none yet."""
        with urlopen(f"http://127.0.0.1:{self._health_port()}/metrics", timeout=30) as page:
            lines = page.read().decode().splitlines()
        return int(sum(float(line.split()[-1]) for line in lines if line.startswith(f"{name}{{")))

    def _health_port(self) -> int | None:
        """Where its metrics are; None: it hasn't started yet."""
        with self._log.open() as log:
            log.seek(self._before)
            said = [msgspec.json.decode(line) for line in log if '"event":"started"' in line]
        return said[0]["health_port"] if said else None
