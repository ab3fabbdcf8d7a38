"""`python -m headrace.devkit.engine --port 8001`: the engine as a process of its own. See --help."""

import argparse
import asyncio
import os
import signal

from headrace.devkit.engine.arguments import admission_of, read_arguments
from headrace.devkit.engine.journal import Journal
from headrace.devkit.engine.server import FakeEngine

DEATH_STATUS = 134
"""That of a process that aborted, as an engine does on a failed assertion."""


async def serve(arguments: argparse.Namespace) -> None:
    """Serves until SIGTERM or SIGINT."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    engine = FakeEngine(
        arguments.made_profile,
        models=tuple(arguments.model or ["fake"]),
        host=arguments.host,
        port=arguments.port,
        seed=arguments.seed,
        lengths=arguments.lengths,
        scale=arguments.time_scale,
        admission=admission_of(arguments),
        plain_unnoticed=arguments.ignore_plain_disconnect,
        journal=Journal(arguments.journal_limit, arguments.journal),
        on_death=lambda: os._exit(DEATH_STATUS),
    )
    async with engine:
        await stopped.wait()
    engine.journal.close()


if __name__ == "__main__":
    asyncio.run(serve(read_arguments()))
