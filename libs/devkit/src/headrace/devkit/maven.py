"""Fetches one file of a Maven repository by jgo. Called by jars, which checks what came.

Invariant: whatever goes wrong becomes JarsMissing with a sentence that says what to do.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TIMEOUT_S = 60
NO_JGO = "jgo, which downloads Kafka's jars, is not installed: pip install 'headrace[devkit]'"
UNKNOWN_CERTIFICATE = (
    "The download of Kafka's jars met a certificate that Python does not know, as behind a company's proxy. "
    "Set REQUESTS_CA_BUNDLE (or SSL_CERT_FILE) to the file with your company's certificates and try again."
)


class JarsMissing(RuntimeError):  # noqa: N818 - reads as what happened
    """The jars cannot be had; the message says what to do."""


def fetch_jar(group: str, artifact: str, version: str, scratch: Path) -> Path:
    """Downloads into `scratch`, laid out as Maven does; raises JarsMissing."""
    try:
        # An extra that a service's install lacks.
        import requests  # noqa: PLC0415
        from jgo.config import GlobalSettings  # noqa: PLC0415
        from jgo.maven import MavenContext  # noqa: PLC0415
    except ImportError as error:
        raise JarsMissing(NO_JGO) from error
    # A company's own repository, if the user's jgo settings name one; else Maven Central.
    repositories = GlobalSettings.load().repositories or None
    context = MavenContext(repo_cache=scratch, remote_repos=repositories, timeout=TIMEOUT_S)
    try:
        with _certificates_for_requests():
            return context.project(group, artifact).at_version(version).artifact().resolve()
    except requests.exceptions.SSLError as error:
        raise JarsMissing(UNKNOWN_CERTIFICATE) from error
    except (OSError, RuntimeError) as error:
        raise JarsMissing(
            f"{artifact} {version} cannot be downloaded ({error}). Kafka's jars come from Maven Central: check "
            "the network and proxy settings, or name your company's repository in jgo's settings file."
        ) from error


@contextmanager
def _certificates_for_requests() -> Iterator[None]:
    """requests reads only REQUESTS_CA_BUNDLE: hands on what SSL_CERT_FILE names."""
    given = os.environ.get("SSL_CERT_FILE")
    if not given or "REQUESTS_CA_BUNDLE" in os.environ:
        yield
        return
    os.environ["REQUESTS_CA_BUNDLE"] = given
    try:
        yield
    finally:
        del os.environ["REQUESTS_CA_BUNDLE"]
