"""`headrace config show SERVICE`: what a service would be told, by whom, and what is wrong with it.

Invariant: it works on wrong and missing settings, for that is when people ask, and shows no secret.
"""

import inspect
from typing import Annotated

import typer

from headrace.cli.options import AsJson
from headrace.cli.terminal import say, say_json, show_table
from headrace.cli.trouble import Trouble, part
from headrace.runtime.settings import SERVICES, ServiceSettings
from headrace.runtime.settings_explained import Explained, explain

_NAMES = ", ".join(service.replace("_", "-") for service in SERVICES)
ServiceName = Annotated[str, typer.Argument(metavar="SERVICE", help=f"One of {_NAMES}.")]


def commands() -> typer.Typer:
    """The group `config`."""
    app = typer.Typer(help="The settings of the services.", no_args_is_help=True)
    app.command("show")(show)
    app.callback()(lambda: None)
    return app


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


def show(service: ServiceName, as_json: AsJson = False) -> None:
    """Print each setting of a service: value, source, meaning. Exits 1 when one is wrong or missing."""
    rows, general = explain(settings_class(service))
    problems = [*(row.problem for row in rows if row.problem), *general]
    if as_json:
        say_json({"service": service, "settings": rows, "problems": problems})
    else:
        show_table(("variable", "value", "from", "meaning"), map(_row, rows))
        for sentence in problems:
            say(sentence)
    if problems:
        raise typer.Exit(1)


def _row(row: Explained) -> tuple[str, str, str, str]:
    source = row.where if row.source == "file" else row.source
    return row.env, row.value, source, row.description
