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
    try:
        _shown(audience, stay=not quiet)
    except Interrupted:
        sys.stderr.write("interrupted; everything is stopped\n")
        raise typer.Exit(INTERRUPTED) from None


def _shown(audience: Lines | Screen, *, stay: bool) -> None:
    """The demo in a folder of its own; whatever happens, it is stopped when this returns or raises."""
    with (
        own_foreground(),
        until_stopped() as stopped,
        tempfile.TemporaryDirectory(prefix="headrace-demo-") as folder,
    ):
        stopped.eager = True
        try:
            ended = play(audience, Path(folder), SystemClock(), stopped, stay=stay)
        except Interrupted:
            stopped.calm()
            raise
        finally:
            if isinstance(audience, Screen):
                audience.close()
    if not ended.good:
        raise typer.Exit(1)
