"""`headrace config show SERVICE`: what a service would be told, by whom, and what is wrong with it.

Invariant: it works on wrong and missing settings, for that is when people ask, and shows no secret.
"""

import typer

from headrace.cli.options import AsJson
from headrace.cli.service_packages import ServiceName, settings_class
from headrace.cli.terminal import say, say_json, show_table
from headrace.runtime.settings_explained import Explained, explain


def commands() -> typer.Typer:
    """The group `config`."""
    app = typer.Typer(help="The settings of the services.", no_args_is_help=True)
    app.command("show")(show)
    app.callback()(lambda: None)
    return app


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
