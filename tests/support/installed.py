"""The wheel as users get it: built from a tree, installed where nothing of the checkout is seen.

Called by tests/architecture/test_wheel.py and tests/e2e/test_compose_as_processes.py.
"""

import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def build_wheel(root: Path, folder: Path) -> Path:
    """The wheel of a source tree, in `folder`; asks no registry and leaves nothing in the tree."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=root)
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, folder: Path) -> Path:
    """A new environment's folder of programs, with the wheel and this environment's packages, but not our checkout."""
    run(sys.executable, "-m", "venv", "--without-pip", str(folder))
    python = folder / "bin/python"
    pip = ("-m", "pip", "--disable-pip-version-check", "--python", str(python))
    run(sys.executable, *pip, "install", "-q", "--no-deps", "--no-index", "--no-compile", str(wheel))
    (site,) = folder.glob("lib/python*/site-packages")
    # A folder named in a .pth file joins the path, but its own .pth files, ours among them, are not read.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python.parent


def run(*argv: str, cwd: Path | None = None) -> str:
    """Standard output of a program that must succeed."""
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout
