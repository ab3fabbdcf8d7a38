"""The guard: starts one program, and ends it when the pipe on its standard input closes.

Run as a script by headrace.devkit.leash, never imported. The starter alone holds the other end of that pipe,
so its death in any way, kill -9 included, closes it. (A parent-death signal would fire when the starting
*thread* ends.) Standard library only and no site packages: it must start in milliseconds.
Invariant: when the guard has exited, no process of the program's group is left.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence


def signal_group(pid: int, *numbers: signal.Signals) -> None:
    """Sends each signal to the whole process group `pid`; a group that is gone is no error."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        for number in numbers:
            os.killpg(pid, number)


def end_when_starter_is_gone(pid: int, grace_s: float, ended: threading.Event) -> None:
    """Blocks until standard input closes; then SIGTERM, and SIGKILL after `grace_s`."""
    while os.read(0, 4096):
        pass
    # A stopped process sees SIGTERM only once it is continued.
    signal_group(pid, signal.SIGTERM, signal.SIGCONT)
    if not ended.wait(grace_s):
        signal_group(pid, signal.SIGKILL)


def wait_and_sweep(program: subprocess.Popen[bytes], ended: threading.Event) -> int:
    """The program's exit status as a shell gives it, once it and the rest of its group are gone."""
    if hasattr(os, "waitid"):
        # Not reaped yet, so its pid, which is the group's, cannot have been given to anyone else.
        os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)
        signal_group(program.pid, signal.SIGKILL)
    status = program.wait()
    ended.set()
    return status if status >= 0 else 128 - status


def main(argv: Sequence[str]) -> int:
    """`guard.py GRACE_S STATUS_FD PROGRAM [ARGUMENT…]`: writes the program's pid, or an error, to STATUS_FD."""
    grace_s, status_fd, command = float(argv[1]), int(argv[2]), argv[3:]
    try:
        program = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:
        os.write(status_fd, f"error {error}".encode())
        return 127
    signal.signal(signal.SIGTERM, lambda *_: signal_group(program.pid, signal.SIGTERM, signal.SIGCONT))
    os.write(status_fd, str(program.pid).encode())
    os.close(status_fd)
    ended = threading.Event()
    watch = threading.Thread(target=end_when_starter_is_gone, args=(program.pid, grace_s, ended), daemon=True)
    watch.start()
    return wait_and_sweep(program, ended)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
