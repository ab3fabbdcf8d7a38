"""A real PostgreSQL for tests, where its programs are installed: unprivileged, in a temporary folder, on a socket alone."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import psutil
import psycopg

from tests.support.eventually import eventually

NOBODY = 65_534
MISSING = "PostgreSQL isn't installed: apt-get install postgresql"
"""Why a test is skipped."""


def programs() -> Path | None:
    """The folder of initdb and postgres, wherever a distribution puts them; None when there is none."""
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


class PostgresServer:
    """A server while entered; `folder` has its socket. Dies with this process. May be killed and started again."""

    def __init__(self, folder_of_programs: Path) -> None:
        self._programs = folder_of_programs
        self.folder = Path(tempfile.mkdtemp(prefix="headrace-pg-"))
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if os.geteuid() == 0:
            os.chown(self.folder, NOBODY, NOBODY)
        try:
            self._run("initdb", "-U", "headrace", "-A", "trust", "-N")
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end(signal.SIGINT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        """Returns when it answers."""
        command = self._command("postgres", "-k", str(self.folder), "-h", "")
        quiet = subprocess.DEVNULL
        self._server = subprocess.Popen(command, stdout=quiet, stderr=quiet, cwd=self.folder)
        eventually(self._answers, "PostgreSQL answers")

    def kill(self) -> None:
        """SIGKILL of all its processes: no checkpoint, no goodbye to its clients."""
        server, self._server = self._server, None
        if server is None:
            return
        # its own immediate stop waits for each backend, and hung once; a server that is out of memory isn't asked either
        postmaster = psutil.Process(server.pid)
        postmaster.suspend()  # or it would start the children again that are killed before it
        for process in (*postmaster.children(recursive=True), postmaster):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        server.wait(20)

    def new_database(self, name: str) -> str:
        """Creates an empty database; its URL."""
        with psycopg.connect(self.conninfo("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"'.encode())
        return f"postgresql://headrace@/{name}?host={self.folder}"

    def conninfo(self, database: str) -> str:
        """How to connect to a database of it."""
        return f"host={self.folder} user=headrace dbname={database}"

    def _end(self, how: signal.Signals) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.send_signal(how)
            server.wait(20)

    def _command(self, program: str, *arguments: str) -> list[str]:
        return [
            *_as_nobody(),
            str(self._programs / program),
            "-D",
            str(self.folder / "data"),
            *arguments,
        ]

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(self._command(program, *arguments), check=True, capture_output=True, cwd=self.folder)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.conninfo("postgres")).close()
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def postgres(folder_of_programs: Path) -> Iterator[str]:
    """A server while entered; yields the folder of its socket."""
    with PostgresServer(folder_of_programs) as server:
        yield str(server.folder)


def new_database(socket_folder: str, name: str) -> str:
    """Creates an empty database; its URL."""
    with psycopg.connect(
        f"host={socket_folder} user=headrace dbname=postgres", autocommit=True
    ) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    return f"postgresql://headrace@/{name}?host={socket_folder}"


def _as_nobody() -> list[str]:
    """PostgreSQL refuses to run as root; the server ends when its parent does."""
    # Where the system keeps it, too: someone's PATH may name little more than Python, make and git.
    setpriv = shutil.which("setpriv") or shutil.which("setpriv", path=os.defpath)
    if setpriv is None:
        return []
    user = ["--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"] if os.geteuid() == 0 else []
    return [setpriv, "--pdeathsig", "INT", *user]
