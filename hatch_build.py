"""Builds the scheduler's core as machine code into the wheel, by mypyc, where it is asked for.

    HATCH_BUILD_HOOK_ENABLE_CUSTOM=true pip wheel .        takes a C compiler, and some minutes

Without that the wheel is pure Python, as it is where it is installed for development; both do the same, and `make compiled`
runs the core's tests on what was compiled. Called by hatchling (pyproject.toml). Invariant: a compiled module lies beside its
source, which stays the one place to read and change it.
"""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = ("libs/contracts/src", "libs/bus/src", "libs/runtime/src", "services/scheduler/src")
CORE = "services/scheduler/src/headrace/scheduler"
PACKAGES = ("decisions", "state", "core")
STRUCT = "Struct"
ORDERS = ("standing_orders", "bulk_cancels", "bulk_cancelling", "carrying_out", "moving", "reprioritising")
"""mypyc knows neither msgspec's structs nor these, which are generic: they stay as they are. Neither is where time goes."""


def compiled_modules(root: Path) -> list[str]:
    """The files to compile, relative to the project's root."""
    found = (path for package in PACKAGES for path in sorted((root / CORE / package).glob("[!_]*.py")))
    return [
        str(path.relative_to(root))
        for path in found
        if path.stem not in ORDERS and STRUCT not in path.read_text(encoding="utf-8")
    ]


class CompiledCore(BuildHookInterface[Any]):
    """The hook."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """As BuildHookInterface: called before the wheel is packed."""
        self._work: str | None = None
        if version == "editable":
            return
        self._work = tempfile.mkdtemp(prefix="headrace-compiled-")
        made = Path(self._work, "made")
        self._compile(made)
        for path in made.rglob("*.so"):
            build_data["force_include"][str(path)] = str(path.relative_to(made))
        build_data["pure_python"], build_data["infer_tag"] = False, True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """As BuildHookInterface: called once it is packed."""
        if self._work is not None:
            shutil.rmtree(self._work, ignore_errors=True)

    def _compile(self, made: Path) -> None:
        from mypyc.build import mypycify  # noqa: PLC0415 needed for a compiled wheel alone
        from setuptools import Distribution  # noqa: PLC0415

        work, root = Path(str(self._work)), Path(self.root)
        os.environ["MYPYPATH"] = os.pathsep.join(str(root / source) for source in SOURCES)
        options = [
            "--config-file=",
            "--namespace-packages",
            "--explicit-package-bases",
            "--follow-imports=silent",
        ]
        before = Path.cwd()
        os.chdir(root)
        try:
            extensions = mypycify(
                [*options, f"--cache-dir={work / 'cache'}", *compiled_modules(root)],
                target_dir=str(work / "c"),
                opt_level="1",
                debug_level="0",
            )
            command: Any = Distribution({"name": "headrace", "ext_modules": extensions}).get_command_obj(
                "build_ext"
            )
            command.build_lib, command.build_temp, command.parallel = str(made), str(work / "objects"), True
            command.ensure_finalized()
            command.run()
        finally:
            os.chdir(before)
