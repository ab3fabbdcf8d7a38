"""`headrace dev`: what a developer starts by hand. Each runs until Ctrl-C and leaves no process."""

import typer


def commands() -> typer.Typer:
    """The group `dev`."""
    app = typer.Typer(help="For developers: a broker, an engine, everything.", no_args_is_help=True)
    app.callback()(lambda: None)
    return app
