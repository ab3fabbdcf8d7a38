"""The scheduler's core as machine code (hatch_build.py): builds the compiled wheel, then runs the core's tests on it.

    make compiled           or: python -m tests.compiled [--where-possible] [--measure]

What is marked `interpreted` is left out: it puts something of its own into the core, to see or to break it. All else is the
same for both forms: the unit tests, and the product's cores in virtual time under faults. Exit status 1 when anything fails,
or no C compiler is found; with --where-possible that is said, and no failure. --measure: its speed instead of its tests.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from zipfile import ZipFile

from tests.benchmarks.saying import say
from tests.support.entry import parser_of

ROOT = Path(__file__).resolve().parents[1]
SEEDS = "0..300"
IS_COMPILED = """
import sys
from headrace.scheduler.core import pool_core
from headrace.scheduler.decisions import pick_next
from headrace.scheduler.state import fair_queue
sys.exit(not all(module.__file__.endswith(".so") for module in (pool_core, pick_next, fair_queue)))
"""


def build(folder: Path) -> Path:
    """The compiled wheel of this tree, unpacked."""
    wheels, site = folder / "wheels", folder / "site"
    argv = ("-m", "pip", "--disable-pip-version-check", "wheel", "-q", "--no-deps", "--no-build-isolation")
    run(*argv, "-w", str(wheels), ".", HATCH_BUILD_HOOK_ENABLE_CUSTOM="true")
    (wheel,) = wheels.glob("*.whl")
    with ZipFile(wheel) as packed:
        packed.extractall(site)
    return site


def run(*argv: str, **environment: str) -> None:
    """This Python with these arguments. Raises CalledProcessError when it fails."""
    subprocess.run([sys.executable, *argv], cwd=ROOT, env=os.environ | environment, check=True)


def can_compile() -> bool:
    """Whether there is a C compiler, and what it includes of this Python."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    return compiler is not None and Path(sysconfig.get_path("include"), "Python.h").exists()


def main() -> int:
    """Builds, and runs all of it."""
    parser = parser_of(__spec__, __doc__)
    parser.add_argument(
        "--where-possible", action="store_true", help="no failure where nothing can be compiled"
    )
    parser.add_argument("--measure", action="store_true", help="its speed instead of its tests")
    given = parser.parse_args()
    if not can_compile():
        say(
            "not compiled: that takes a C compiler and Python's headers (Debian: apt install build-essential python3-dev)"
        )
        return int(not given.where_possible)
    with tempfile.TemporaryDirectory(prefix="headrace-compiled-") as folder:
        try:
            path = os.pathsep.join((str(build(Path(folder))), str(ROOT)))
            run("-c", IS_COMPILED, PYTHONPATH=path)
            if given.measure:
                for name in ("releases", "decisions"):
                    run("-m", f"tests.benchmarks.{name}", PYTHONPATH=path)
                return 0
            unit = ("tests/unit/scheduler", "-m", "not interpreted", "-p", "no:cacheprovider")
            run("-m", "pytest", "-q", "-n", "2", *unit, PYTHONPATH=path)
            run("-m", "tests.simulation", "--seeds", SEEDS, PYTHONPATH=path)
        except subprocess.CalledProcessError as error:
            say(f"failed: {error}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
