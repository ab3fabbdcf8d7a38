"""A child does as it is told, and never outlives its starter."""

import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from headrace.devkit.leash import Child
from tests.support.eventually import eventually

SLEEP = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]
DEAF = [
    sys.executable,
    "-I",
    "-S",
    "-c",
    "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)",
]
FAMILY = ["sh", "-c", "sleep 600 & echo $!; wait"]

STARTER = """
import sys, threading, time
from pathlib import Path
from headrace.devkit.leash import Child
# Started by a thread that ends at once: the leash must not mind.
argv, log = sys.argv[2:], Path(sys.argv[1])
thread = threading.Thread(target=lambda: keep.append(Child(argv, log_path=log)))
keep = []
thread.start()
thread.join()
print(keep[0].pid, flush=True)
time.sleep(600)
"""


def has_said(log: Path, what: str) -> bool:
    return log.exists() and what in log.read_text()


def is_gone(pid: int) -> bool:
    """Ended, whether or not its adopter has collected it."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_child_reports_its_exit_status() -> None:
    assert Child(["sh", "-c", "exit 7"]).wait(timedelta(seconds=10)) == 7


def test_a_program_that_cannot_be_started_is_told() -> None:
    with pytest.raises(OSError, match="cannot start no-such-program"):
        Child(["no-such-program"])


def test_output_goes_to_the_log(tmp_path: Path) -> None:
    script = ["/bin/sh", "-c", "echo out; echo err >&2; echo $WORD"]
    Child(script, env={"WORD": "w"}, log_path=tmp_path / "log").wait(timedelta(seconds=10))
    assert (tmp_path / "log").read_text().split() == ["out", "err", "w"]


def test_terminate_ends_even_a_paused_child() -> None:
    child = Child(SLEEP)
    child.pause()
    eventually(lambda: psutil.Process(child.pid).status() == psutil.STATUS_STOPPED, "it is stopped")
    assert child.exit_status is None
    assert child.terminate() == 128 + signal.SIGTERM
    assert not psutil.pid_exists(child.pid)


def test_a_child_deaf_to_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    child = Child(DEAF, log_path=tmp_path / "log")
    eventually(lambda: has_said(tmp_path / "log", "deaf"), "it ignores SIGTERM")
    assert child.terminate(timedelta(milliseconds=50)) == 128 + signal.SIGKILL


def test_kill_takes_grandchildren_along(tmp_path: Path) -> None:
    child = Child(FAMILY, log_path=tmp_path / "log")
    grandchild = int(eventually((tmp_path / "log").read_text, "the grandchild's pid"))
    child.kill()
    eventually(lambda: is_gone(grandchild), "the grandchild is gone")


@pytest.mark.parametrize("argv", [SLEEP, FAMILY], ids=["one", "family"])
def test_nothing_survives_a_starter_killed_with_kill_9(argv: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTER, str(tmp_path / "log"), *argv]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout
        child = psutil.Process(int(starter.stdout.readline()))
        family = [one.pid for one in (child, *child.parents()[:1], *child.children(recursive=True))]
        assert not any(is_gone(pid) for pid in family)
        starter.kill()
    eventually(lambda: all(is_gone(pid) for pid in family), "guard, child and grandchild are gone")
