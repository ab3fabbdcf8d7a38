"""One service of a stack as a child process: started, watched until it is ready, killed, paused, restarted by name.

Called by stack.processes and, through it, by end-to-end tests. Invariant: a restart has the same name, ports, settings
and log as before, so that whoever talks to it finds it again.
"""

import socket
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from headrace.devkit.leash import Child
from headrace.devkit.ports import LOOPBACK
from headrace.devkit.probes import http_answers, wait_until

READY_WITHIN = timedelta(seconds=60)
GRACE = timedelta(seconds=15)
LAST_LINES = 12


class StackFailed(RuntimeError):  # noqa: N818 - reads as what happened
    """A service did not come up, or was not there when needed; the message has the last lines of its log."""


class ServiceProcess:
    """`argv` with `env`, logging to `log_path`, answering /readyz on `health_port`. Not started by being made."""

    def __init__(
        self,
        name: str,
        argv: list[str],
        *,
        env: Mapping[str, str],
        log_path: Path,
        health_port: int,
        api_port: int | None = None,
    ) -> None:
        self.name, self.log_path, self.health_port = name, log_path, health_port
        self._argv, self._env, self._api_port = argv, dict(env), api_port
        self._child: Child | None = None
        self.pids: list[int] = []

    @property
    def child(self) -> Child:
        """Its process now. Raises StackFailed before the start."""
        if self._child is None:
            raise StackFailed(f"{self.name} was not started")
        return self._child

    @property
    def pid(self) -> int:
        """Its process id now; `pids` has all there were."""
        return self.child.pid

    @property
    def alive(self) -> bool:
        """Whether its process runs (a paused one does)."""
        return self._child is not None and self._child.alive

    @property
    def health_url(self) -> str:
        """Where /livez, /readyz and /metrics are."""
        return f"http://127.0.0.1:{self.health_port}"

    def launch(self) -> None:
        """Start its process; returns at once."""
        self._child = Child(self._argv, env=self._env, log_path=self.log_path, grace=GRACE)
        self.pids.append(self._child.pid)

    def await_ready(self, within: timedelta = READY_WITHIN) -> None:
        """Returns when /readyz answers 200 and its API, if it has one, listens. Raises StackFailed with its last lines."""
        ended = False

        def settled() -> bool:
            nonlocal ended
            ended = not self.alive
            return ended or (http_answers(self.health_port, "/readyz") and self._listens())

        if not wait_until(settled, within):
            raise StackFailed(self._told(f"was not ready within {within.total_seconds():.0f} s"))
        if ended:
            raise StackFailed(self._told(f"ended with status {self.child.exit_status}"))

    def _listens(self) -> bool:
        if self._api_port is None:
            return True
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex((LOOPBACK, self._api_port)) == 0

    def restart(self, within: timedelta = READY_WITHIN) -> None:
        """End it politely if it lives, start it again, return when it is ready."""
        if self.alive:
            self.terminate()
        self.launch()
        self.await_ready(within)

    def kill(self) -> int:
        """SIGKILL; returns its status once it is gone."""
        return self.child.kill()

    def terminate(self, grace: timedelta = GRACE) -> int:
        """SIGTERM, then SIGKILL after `grace`; returns its status. Twice is no error."""
        return self.child.terminate(grace)

    def ask_to_end(self) -> None:
        """SIGTERM, and no waiting. Once only: services take a second one as "at once"."""
        self.child.ask_to_end()

    def await_end(self, grace: timedelta = GRACE) -> int:
        """Its status once it is gone; SIGKILL after `grace`."""
        try:
            return self.child.wait(grace)
        except TimeoutError:
            return self.child.kill()

    def pause(self) -> None:
        """SIGSTOP."""
        self.child.pause()

    def resume(self) -> None:
        """SIGCONT."""
        self.child.resume()

    def last_lines(self, count: int = LAST_LINES) -> list[str]:
        """The end of its log."""
        if not self.log_path.exists():
            return []
        return self.log_path.read_text(errors="replace").splitlines()[-count:]

    def _told(self, what: str) -> str:
        lines = self.last_lines() or ["(nothing)"]
        return "\n".join([f"{self.name} {what}. The last it logged, in {self.log_path}:", *lines])
