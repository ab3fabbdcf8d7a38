"""Where devkit keeps what it has downloaded, shared by all checkouts of a user. Called by jars and preflight."""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """`$HEADRACE_CACHE`, else `headrace` in `$XDG_CACHE_HOME`, else `~/.cache/headrace`; may not exist yet."""
    if named := environ.get("HEADRACE_CACHE"):
        return Path(named).expanduser().absolute()
    if shared := environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "headrace"
    return Path.home() / ".cache" / "headrace"


@contextmanager
def only_one(lock_path: Path) -> Iterator[None]:
    """Blocks until no other process is inside for the same file; the system lets go when a holder dies."""
    lock_path.parent.mkdir(parents=True, exist_ok=True)
    with lock_path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
