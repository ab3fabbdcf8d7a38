"""The broker's jars: exactly those of kafka.lock, downloaded once, checked each time. Called by kafka and preflight.

jgo only downloads. Its own resolution takes the nearest version, so one more dependency can put kafka-clients
3.9 beside Kafka 4.4; and it parts jars into two folders of which the class path needs both. A lock file and
one flat folder of ours have neither trap. Invariant: a file with a jar's final name has its whole bytes; one
whose hash differs is never used.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from headrace.devkit.cache import cache_folder, only_one
from headrace.devkit.maven import JarsMissing, fetch_jar

KAFKA_VERSION = "4.4.0"
TRIES = 3

Progress = Callable[[str, int, int], None]
"""Called with the jar's file name, and the bytes done and to do over all jars that are missing."""


@dataclass(frozen=True)
class Jar:
    """One line of the lock: Maven coordinates, size in bytes, SHA-256 in hex."""

    group: str
    artifact: str
    version: str
    size: int
    sha256: str

    @property
    def file_name(self) -> str:
        """As Maven repositories name it."""
        return f"{self.artifact}-{self.version}.jar"


def locked_jars() -> list[Jar]:
    """All jars of the broker, as committed in kafka.lock."""
    lines = files("headrace.devkit").joinpath("kafka.lock").read_text().splitlines()
    return [jar_of(line) for line in lines if not line.startswith("#")]


def jar_of(line: str) -> Jar:
    """One line of the lock: `group:artifact:version size sha256`."""
    coordinates, size, sha256 = line.split()
    group, artifact, version = coordinates.split(":")
    return Jar(group, artifact, version, int(size), sha256)


def jar_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the jars lie, or will."""
    return cache_folder(environ) / f"kafka-{KAFKA_VERSION}"


def is_whole(path: Path, jar: Jar) -> bool:
    """Whether `path` is there with the locked size and hash."""
    if not path.is_file() or path.stat().st_size != jar.size:
        return False
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest() == jar.sha256


def missing_jars(folder: Path, jars: Sequence[Jar]) -> list[Jar]:
    """Those of `jars` that are not, or not whole, in `folder`."""
    return [jar for jar in jars if not is_whole(folder / jar.file_name, jar)]


def class_path(progress: Progress | None = None, folder: Path | None = None) -> str:
    """The broker's class path; downloads what is missing. Raises JarsMissing with a sentence.

    Safe when several processes call it at once: one downloads, the others wait and find.
    """
    folder, jars = folder or jar_folder(), locked_jars()
    if missing_jars(folder, jars):
        with only_one(folder.parent / f"{folder.name}.lock"):
            _download(missing_jars(folder, jars), folder, progress or (lambda *_: None))
    return os.pathsep.join(str(folder / jar.file_name) for jar in jars)


def _download(jars: Sequence[Jar], folder: Path, progress: Progress) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for left_behind in folder.glob("download-*"):  # by a process that was killed: only one is in here
        shutil.rmtree(left_behind)
    done, total = 0, sum(jar.size for jar in jars)
    for jar in jars:
        progress(jar.file_name, done, total)
        _download_one(jar, folder)
        done += jar.size
        progress(jar.file_name, done, total)


def _download_one(jar: Jar, folder: Path) -> None:
    reason = JarsMissing(
        f"{jar.file_name} came with other bytes than kafka.lock says, and was thrown away. "
        "Try again; if it stays so, the repository or proxy you download from alters files."
    )
    for _ in range(TRIES):
        # A new folder each time: jgo takes what an interrupted try left for the whole file.
        with tempfile.TemporaryDirectory(dir=folder, prefix="download-") as scratch:
            try:
                fetched = fetch_jar(jar.group, jar.artifact, jar.version, Path(scratch))
            except JarsMissing as missing:
                reason = missing
                continue
            if is_whole(fetched, jar):
                fetched.replace(folder / jar.file_name)
                return
    raise reason
