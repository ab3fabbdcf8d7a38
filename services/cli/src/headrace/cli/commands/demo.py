"""`headrace demo`: chooses who watches, gives it a folder, and turns its end into an exit status."""

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.demo.foreground import own_foreground
from headrace.cli.demo.lines import Lines
from headrace.cli.demo.play import play
from headrace.cli.demo.screen import Screen
from headrace.cli.options import AsJson
from headrace.cli.until_stopped import Interrupted, until_stopped
from headrace.runtime.clock import SystemClock

INTERRUPTED = 130


def demo(
    once: Annotated[bool, typer.Option("--once", help="JSON lines; ends by itself.")] = False,
    as_json: AsJson = False,
) -> None:
    """Prompts of three tenants, a real Kafka, a real model: live. Exits non-zero unless each prompt ended once."""
    quiet = once or as_json or not sys.stdout.isatty()
    audience = Lines() if quiet else Screen()
    with (
        own_foreground(),
        until_stopped() as stopped,
        tempfile.TemporaryDirectory(prefix="headrace-demo-") as folder,
    ):
        stopped.eager = True
        try:
            ended = play(audience, Path(folder), SystemClock(), stopped, stay=not quiet)
        except Interrupted:
            stopped.calm()
            raise typer.Exit(INTERRUPTED) from None
        finally:
            if isinstance(audience, Screen):
                audience.close()
    if not ended.good:
        raise typer.Exit(1)
