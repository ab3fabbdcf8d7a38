"""`headrace dev`: what a developer starts by hand. Each runs until Ctrl-C and leaves no process."""

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.commands.engine import engine
from headrace.cli.commands.schemas import schemas
from headrace.cli.commands.up import up
from headrace.cli.downloads import showing_downloads
from headrace.cli.options import AsJson
from headrace.cli.serving import run_until_stopped
from headrace.devkit.kafka import KafkaCluster
from headrace.devkit.model import ModelServer

Port = Annotated[int | None, typer.Option(help="Port; default: a free one.")]
Slots = Annotated[int, typer.Option(help="Requests that run at once.")]


def commands() -> typer.Typer:
    """The group `dev`."""
    app = typer.Typer(help="For developers: a broker, an engine, everything.", no_args_is_help=True)
    for command in (up, kafka, model):
        app.command(command.__name__)(command)
    app.command("engine", short_help="Run an engine without a model until Ctrl-C; prints its URL.")(engine)
    app.command("schemas")(schemas)
    return app


def kafka(
    nodes: Annotated[int, typer.Option(help="1 or 3.")] = 1,
    folder: Annotated[
        Path | None, typer.Option(help="Keeps its data here; default: a temporary one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a real Kafka until Ctrl-C; prints its address."""
    with showing_downloads(quiet=as_json) as progress:
        cluster = KafkaCluster(nodes=nodes, folder=folder, progress=progress)
        run_until_stopped(cluster, lambda: ("kafka", cluster.bootstrap), as_json=as_json)


def model(port: Port = None, slots: Slots = 4, as_json: AsJson = False) -> None:
    """Run the small real model (SmolLM2, on CPU) until Ctrl-C. Prints its URL."""
    server = ModelServer(port=port, slots=slots)
    run_until_stopped(server, lambda: ("model", server.url), as_json=as_json)
