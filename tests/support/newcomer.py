"""Runs commands in a clean clone as a newcomer would. Called by tests/newcomer.sh; standard library only.

Invariant: nothing of this machine reaches the commands but the tools linked below, certificates and package settings; and
whatever they started is found by a mark in its environment, so that a process left behind is a failure.
"""

import argparse
import contextlib
import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ("make demo", "make test")
TOOLS = """
    bash sh env make git python3 grep sed sort expand test true false echo cat cp mv rm mkdir rmdir ls ln touch
    chmod uname dirname basename head tail tr cut sleep date id tty stty
"""
ABSENT = ("java", "javac", "mvn", "docker", "node", "npm", "gcc", "cc")
PASSED = re.compile(r"SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|PIP_\w+")
CURL_LINE = re.compile(r"^\W*(curl -.*)$", re.MULTILINE)
CONTROL = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\r")
DEMO_PATIENCE, EXIT_PATIENCE, ALL_PATIENCE = 1800, 60, 3600
"""Seconds; the first one includes the set-up, on a machine that does other things too."""


def say(text: str) -> None:
    sys.stdout.write(f"== {text}\n")
    sys.stdout.flush()


def bare_path(folder: Path) -> str:
    """A folder of links to the few tools that a machine with Python, make and git has."""
    folder.mkdir()
    for tool in TOOLS.split():
        found = os.path.realpath(sys.executable) if tool == "python3" else shutil.which(tool)
        if found:
            (folder / tool).symlink_to(found)
    present = [tool for tool in ABSENT if shutil.which(tool, path=str(folder))]
    if present:
        raise SystemExit(f"the bare PATH still has {present}")
    return str(folder)


def environment(folder: Path, mark: str) -> dict[str, str]:
    home = folder / "home"
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if PASSED.fullmatch(name)}
    return {
        **kept,
        "HOME": str(home),
        "PATH": bare_path(folder / "bin"),
        "TERM": "xterm",
        "LANG": "C.UTF-8",
        "NEWCOMER": mark,
    }


def marked(mark: str) -> dict[int, str]:
    """Processes that carry the mark: command lines by process id."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"NEWCOMER={mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found[int(entry.name)] = line[:200]
        except OSError:
            continue
    return found


def left_in_time(mark: str) -> list[str]:
    """What still runs after a while of waiting for it to go; it is ended here, having been found out."""
    deadline = time.monotonic() + EXIT_PATIENCE
    while (found := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.2)
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return list(found.values())


def run_plain(command: str, clone: Path, env: dict[str, str]) -> int:
    return subprocess.run(
        ["bash", "-c", command], cwd=clone, env=env, timeout=ALL_PATIENCE, check=False
    ).returncode


def read_some(terminal: int) -> bytes:
    ready, _, _ = select.select([terminal], [], [], 1.0)
    if not ready:
        return b""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def answer_of(curl_line: str) -> str:
    """What the demo's own curl line brings, carried out by this machine's curl."""
    done = subprocess.run(shlex.split(curl_line), capture_output=True, text=True, timeout=120, check=False)
    return done.stdout


def run_demo(command: str, clone: Path, env: dict[str, str]) -> int:
    """In a pseudo terminal: wait for the curl line, carry it out, Ctrl-C, and wait for the end."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(clone)
        os.execvpe("bash", ["bash", "-c", f"stty cols 300 rows 50; {command}"], env)
    seen, asked, deadline = b"", False, time.monotonic() + DEMO_PATIENCE
    while time.monotonic() < deadline:
        seen += read_some(terminal)
        screen = CONTROL.sub(b"", seen).decode(errors="replace")
        lines = CURL_LINE.findall(screen)
        if lines and not asked and "Ctrl-C" in screen.rsplit(lines[-1], 1)[-1]:
            asked = True
            answer = answer_of(lines[-1].strip())
            say(f"its curl line answers: {answer[:300]!r}")
            if '"choices"' not in answer:
                os.kill(child, signal.SIGKILL)
                return 1
            os.write(terminal, b"\x03")
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            sys.stdout.write(screen[-3000:] + "\n")
            return code if asked else code or 1
    sys.stdout.write(CONTROL.sub(b"", seen).decode(errors="replace")[-4000:] + "\n")
    os.kill(child, signal.SIGKILL)
    return 1


def main(commands: tuple[str, ...]) -> int:
    folder = Path(tempfile.mkdtemp(prefix="newcomer-"))
    mark = folder.name
    try:
        env = environment(folder, mark)
        clone = folder / "headrace"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        for command in commands:
            begun = time.monotonic()
            run = run_demo if command.startswith("make demo") and "--once" not in command else run_plain
            code = run(command, clone, env)
            took = time.monotonic() - begun
            left = left_in_time(mark)
            say(
                f"{command}: exit {code} after {took:.0f} s, "
                + (f"left running: {left}" if left else "nothing left running")
            )
            if code or left:
                return 1
        return 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="tests/newcomer.sh", description="Run commands as a newcomer would."
    )
    parser.add_argument(
        "commands",
        nargs="*",
        metavar="COMMAND",
        help=f"such as '{COMMANDS[0]}'; default: {' and '.join(COMMANDS)}",
    )
    sys.exit(main(tuple(parser.parse_args().commands) or COMMANDS))
