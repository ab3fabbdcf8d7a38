"""A bar for what has to be downloaded on a first run. Called by commands that start a broker."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

Told = Callable[[str, int, int], None]
"""As devkit calls it: the file's name, and bytes done and to do over all that is missing."""


@contextmanager
def showing_downloads(*, quiet: bool = False) -> Iterator[Told]:
    """A bar on standard error that appears with the first byte; `quiet`, or in a pipe, nothing is drawn."""
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=Console(stderr=True),
        disable=quiet or not sys.stderr.isatty(),
    )
    task = bars.add_task("Kafka's jars", start=False, visible=False)

    def told(file_name: str, done: int, total: int) -> None:
        if not bars.live.is_started:
            bars.start()
        bars.start_task(task)
        bars.update(task, description=file_name, completed=done, total=total, visible=True)
        if done >= total:
            bars.stop()

    try:
        yield told
    finally:
        bars.stop()
