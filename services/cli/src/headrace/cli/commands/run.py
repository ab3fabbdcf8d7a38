"""`headrace run SERVICE`: the same as `python -m headrace.<service>`, for images and process managers."""

import runpy
import sys

from headrace.cli.service_packages import ServiceName, package_of
from headrace.cli.trouble import part


def run(service: ServiceName) -> None:
    """Run one service in this process until it is told to stop."""
    package = package_of(service)
    part(package)
    sys.argv = [package]
    runpy.run_module(package, run_name="__main__", alter_sys=True)
