"""Services by name: their packages and their settings. Used by `headrace config`, `headrace run` and the stack."""

import inspect
from typing import Annotated

import typer

from headrace.cli.trouble import Trouble, part
from headrace.runtime.settings import SERVICES, ServiceSettings

_NAMES = ", ".join(service.replace("_", "-") for service in SERVICES)
ServiceName = Annotated[str, typer.Argument(metavar="SERVICE", help=f"One of {_NAMES}.")]


def package_of(service: str) -> str:
    """The package of a service by its name, with dashes or underscores. Raises Trouble for an unknown one."""
    name = service.replace("-", "_")
    if name not in SERVICES:
        raise Trouble(f"there is no service {service!r}; there are {_NAMES}")
    return f"headrace.{name}"


def settings_class(service: str) -> type[ServiceSettings]:
    """The class of settings that a service's settings.py defines. Raises Trouble."""
    module = part(f"{package_of(service)}.settings")
    for _, candidate in inspect.getmembers(module, inspect.isclass):
        if issubclass(candidate, ServiceSettings) and candidate.__module__ == module.__name__:
            return candidate
    raise Trouble(f"{module.__name__} defines no settings")
