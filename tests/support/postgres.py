"""A real PostgreSQL for tests, where its programs are installed: unprivileged, in a temporary folder, on a socket alone."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.support.eventually import eventually

NOBODY = 65_534


def programs() -> Path | None:
    """The folder of initdb and postgres, wherever a distribution puts them; None when there is none."""
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


@contextmanager
def postgres(folder_of_programs: Path) -> Iterator[str]:
    """A server while entered; yields the folder of its socket. Dies with this process."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-pg-"))
    data = folder / "data"
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    try:
        made = [
            *_as_nobody(),
            str(folder_of_programs / "initdb"),
            "-D",
            str(data),
            "-U",
            "headrace",
            "-A",
            "trust",
            "-N",
        ]
        subprocess.run(made, check=True, capture_output=True, cwd=folder)
        server = subprocess.Popen(
            [
                *_as_nobody(),
                str(folder_of_programs / "postgres"),
                "-D",
                str(data),
                "-k",
                str(folder),
                "-h",
                "",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
        )
        try:
            eventually(lambda: _answers(folder), "PostgreSQL answers")
            yield str(folder)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(20)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def new_database(socket_folder: str, name: str) -> str:
    """Creates an empty database; its URL."""
    with psycopg.connect(_conninfo(socket_folder, "postgres"), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    return f"postgresql://headrace@/{name}?host={socket_folder}"


def _conninfo(folder: str, database: str) -> str:
    return f"host={folder} user=headrace dbname={database}"


def _answers(folder: Path) -> bool:
    try:
        psycopg.connect(_conninfo(str(folder), "postgres")).close()
    except psycopg.OperationalError:
        return False
    return True


def _as_nobody() -> list[str]:
    """PostgreSQL refuses to run as root; the server ends when its parent does."""
    # Where the system keeps it, too: someone's PATH may name little more than Python, make and git.
    setpriv = shutil.which("setpriv") or shutil.which("setpriv", path=os.defpath)
    if setpriv is None:
        return []
    user = ["--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"] if os.geteuid() == 0 else []
    return [setpriv, "--pdeathsig", "INT", *user]
