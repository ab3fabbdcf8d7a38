"""Jars are those of the lock, whole, whoever else downloads at the same time."""

import hashlib
import threading
from pathlib import Path

import pytest
import requests
from jgo.maven import MavenContext

from headrace.devkit import jars, maven
from headrace.devkit.cache import cache_folder
from headrace.devkit.jars import Jar, class_path, locked_jars
from headrace.devkit.maven import JarsMissing

CONTENT = b"a jar"


def jar(name: str, content: bytes = CONTENT) -> Jar:
    return Jar("org.example", name, "1.0", len(content), hashlib.sha256(content).hexdigest())


class Repository:
    """Stands for the download: serves CONTENT for everything and counts."""

    def __init__(self) -> None:
        self.served: list[str] = []

    def fetch(self, group: str, artifact: str, version: str, scratch: Path) -> Path:
        self.served.append(artifact)
        path = scratch / f"{group}-{artifact}-{version}.part"
        path.write_bytes(CONTENT)
        return path


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> Repository:
    repository = Repository()
    monkeypatch.setattr(jars, "fetch_jar", repository.fetch)
    monkeypatch.setattr(jars, "locked_jars", lambda: [jar("one"), jar("two")])
    return repository


def test_the_lock_holds_one_version_of_each_jar_and_no_address() -> None:
    locked = locked_jars()
    assert len({(one.group, one.artifact) for one in locked}) == len(locked) > 40
    kafka = {one.version for one in locked if one.group == "org.apache.kafka"}
    assert kafka == {jars.KAFKA_VERSION}
    assert all(len(one.sha256) == 64 and one.size > 0 for one in locked)


def test_what_is_missing_is_downloaded_once_and_progress_ends_at_the_total(
    repository: Repository, tmp_path: Path
) -> None:
    told: list[tuple[str, int, int]] = []
    path = class_path(lambda *said: told.append(said), tmp_path / "jars")
    assert path == f"{tmp_path}/jars/one-1.0.jar:{tmp_path}/jars/two-1.0.jar"
    assert told[-1] == ("two-1.0.jar", 10, 10)
    class_path(folder=tmp_path / "jars")
    assert repository.served == ["one", "two"]


def test_a_jar_that_was_damaged_is_fetched_again(repository: Repository, tmp_path: Path) -> None:
    class_path(folder=tmp_path / "jars")
    (tmp_path / "jars" / "two-1.0.jar").write_bytes(b"A jar")
    class_path(folder=tmp_path / "jars")
    assert repository.served == ["one", "two", "two"]


def test_a_download_with_other_bytes_is_refused_and_leaves_nothing(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(jars, "locked_jars", lambda: [jar("one", b"another jar")])
    with pytest.raises(JarsMissing, match="came with other bytes"):
        class_path(folder=tmp_path / "jars")
    assert list((tmp_path / "jars").iterdir()) == []
    assert repository.served == ["one"] * jars.TRIES


def test_two_at_once_download_once(repository: Repository, tmp_path: Path) -> None:
    both = [threading.Thread(target=class_path, args=(None, tmp_path / "jars")) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert repository.served == ["one", "two"]


def test_an_unknown_certificate_becomes_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object) -> None:
        raise requests.exceptions.SSLError("CERTIFICATE_VERIFY_FAILED")

    monkeypatch.setattr(MavenContext, "project", refuse)
    with pytest.raises(JarsMissing, match="Set REQUESTS_CA_BUNDLE"):
        maven.fetch_jar("org.example", "one", "1.0", tmp_path)


def test_the_cache_folder_is_named_or_the_users() -> None:
    assert cache_folder({"HEADRACE_CACHE": "/c"}) == Path("/c")
    assert cache_folder({"XDG_CACHE_HOME": "/x"}) == Path("/x/headrace")
    assert cache_folder({}) == Path.home() / ".cache" / "headrace"
