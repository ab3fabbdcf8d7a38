"""Servers of ours as child processes, ready when a path answers. Called by tests, the demo and the CLI.

EngineProcess and model.ModelServer are two of them; the services in the demo are started the same way.
"""

import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Self

from headrace.devkit.leash import GRACE, Child
from headrace.devkit.ports import LOOPBACK, free_port
from headrace.devkit.probes import http_answers, wait_until
from headrace.devkit.started import Started

LAST_LINES = 15
READY_WITHIN = timedelta(seconds=60)


class ServerFailed(RuntimeError):  # noqa: N818 - reads as what happened
    """A server ended or did not become ready; the message has the last lines of its log."""


class ServedChild(Started):
    """`python -m MODULE ARGUMENTS` on a leash, which serves HTTP on `port` of the loopback.

    start() returns when `ready_path` answers 200. The same object may be started again after stop() or a kill,
    on the same port. `log_path` None drops its output, so that an error can't quote it.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        port: int,
        ready_path: str = "/health",
        ready_within: timedelta = READY_WITHIN,
        env: Mapping[str, str] | None = None,
        log_path: Path | None = None,
    ) -> None:
        self._argv = (sys.executable, "-m", module, *arguments)
        self.port, self.log_path = port, log_path
        self._ready_path, self._ready_within, self._env = ready_path, ready_within, env
        self._child: Child | None = None

    @property
    def url(self) -> str:
        """Root of all paths, without a slash."""
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def child(self) -> Child:
        """The process: pid, kill(), pause(), resume(). Raises RuntimeError before start()."""
        if self._child is None:
            raise RuntimeError(f"{self._argv[2]} has not been started")
        return self._child

    def start(self) -> Self:
        """Raises ServerFailed when it ends or isn't ready in time."""
        self.launch()
        self.await_ready()
        return self

    def launch(self) -> None:
        """Starts it without waiting, so that several can come up together."""
        self._child = Child(self._argv, env=self._env, log_path=self.log_path)

    def await_ready(self) -> None:
        """Returns when it serves; raises ServerFailed, leaving nothing running."""
        child = self.child
        wait_until(lambda: not child.alive or http_answers(self.port, self._ready_path), self._ready_within)
        if child.alive and http_answers(self.port, self._ready_path):
            return
        what = (
            f"not ready within {self._ready_within}"
            if child.alive
            else f"ended with status {child.exit_status}"
        )
        self.stop()
        raise ServerFailed(
            "\n".join([f"{self._argv[2]} did not start: {what}. The last it said:", *self._last_lines()])
        )

    def _last_lines(self) -> list[str]:
        if self.log_path is None or not self.log_path.exists():
            return []
        return self.log_path.read_text(errors="replace").splitlines()[-LAST_LINES:]

    def stop(self, grace: timedelta = GRACE) -> None:
        """SIGTERM, then SIGKILL after `grace`."""
        if self._child:
            self._child.terminate(grace)


class EngineProcess(ServedChild):
    """The fake engine (headrace.devkit.engine) as a child process; `arguments` as its --help lists them."""

    def __init__(self, *arguments: str, port: int | None = None, log_path: Path | None = None) -> None:
        port = port or free_port()
        super().__init__(
            "headrace.devkit.engine", ["--port", str(port), *arguments], port=port, log_path=log_path
        )
