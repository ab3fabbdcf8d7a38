"""Child processes that cannot outlive their starter. Called by everything in devkit, the demo and e2e tests.

Each child runs under a guard (guard.py) that holds the read end of a pipe; only the starter holds the write
end, close-on-exec. Invariant: once the starter is gone, however it went, the child's whole process group is
gone within the grace. A starter must not fork without exec after that (multiprocessing's "fork"): the copy
would hold the pipe open.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace.devkit.guard import signal_group

GUARD = Path(__file__).with_name("guard.py")
GRACE = timedelta(seconds=5)


class Child:
    """One program on a leash, running from the moment this object exists.

    `log_path` gets its standard output and error, appended; without it both are dropped. It runs in a session
    of its own: a Ctrl-C in the terminal reaches only the starter, which then ends its children in its order.
    `grace` is how long it may take after SIGTERM when the starter dies. Raises OSError when the program
    cannot be started.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        log_path: Path | None = None,
        cwd: Path | None = None,
        grace: timedelta = GRACE,
    ) -> None:
        lifeline_read, self._lifeline = os.pipe()
        status_read, status_write = os.pipe()
        log = os.open(log_path or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        command = [
            sys.executable,
            "-I",
            "-S",
            str(GUARD),
            str(grace.total_seconds()),
            str(status_write),
            *argv,
        ]
        try:
            self._guard = subprocess.Popen(
                command,
                stdin=lifeline_read,
                stdout=log,
                stderr=log,
                env=None if env is None else dict(env),
                cwd=cwd,
                pass_fds=[status_write],
                start_new_session=True,
            )
        finally:
            for descriptor in (lifeline_read, status_write, log):
                os.close(descriptor)
        self.argv = tuple(argv)
        self.pid = self._read_pid(status_read)

    def _read_pid(self, status_read: int) -> int:
        with os.fdopen(status_read, "rb") as status:
            said = status.read().decode()
        if not said.isdecimal():
            self._guard.wait()
            self._let_go()
            raise OSError(f"cannot start {self.argv[0]}: {said.removeprefix('error ') or 'its guard died'}")
        return int(said)

    def _let_go(self) -> None:
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    @property
    def alive(self) -> bool:
        """Whether it still runs (a paused one does)."""
        return self.exit_status is None

    @property
    def exit_status(self) -> int | None:
        """None while it runs; then its exit status, or 128 + the number of the signal that ended it."""
        return self._guard.poll()

    def wait(self, within: timedelta | None = None) -> int:
        """Its exit status, as `exit_status`; raises TimeoutError when it still runs after `within`."""
        try:
            status = self._guard.wait(None if within is None else within.total_seconds())
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self.argv[0]} (pid {self.pid}) still runs after {within}") from None
        self._let_go()
        return status

    def _signal(self, *numbers: signal.Signals) -> None:
        if self.alive:
            signal_group(self.pid, *numbers)

    def ask_to_end(self) -> None:
        """SIGTERM, and no waiting: for ending several at once before `terminate` waits for each."""
        self._signal(signal.SIGTERM, signal.SIGCONT)

    def terminate(self, grace: timedelta = GRACE) -> int:
        """SIGTERM, then SIGKILL after `grace`; returns its exit status once it is gone. Twice is no error."""
        self.ask_to_end()
        try:
            return self.wait(grace)
        except TimeoutError:
            return self.kill()

    def kill(self) -> int:
        """SIGKILL to its whole group; returns its exit status once it is gone."""
        self._signal(signal.SIGKILL)
        return self.wait()

    def pause(self) -> None:
        """SIGSTOP: it lives, holds its sockets, and does nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT after `pause`."""
        self._signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.terminate()
