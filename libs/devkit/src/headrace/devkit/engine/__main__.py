"""`python -m headrace.devkit.engine --port 8001`: the fake engine as a process of its own. See --help."""

import argparse
import asyncio
import os
import signal
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from headrace.devkit.engine.journal import Journal
from headrace.devkit.engine.server import FakeEngine

DEATH_STATUS = 134
"""That of a process that aborted, as an engine does on a failed assertion."""


def read_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="headrace.devkit.engine", description="A fast fake LLM engine.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", action="append", help="served model name, repeatable (default: fake)")
    parser.add_argument("--token-ms", type=float, default=0, help="milliseconds a token (default: 0)")
    parser.add_argument("--slots", type=int, default=1024, help="requests that run at once (default: 1024)")
    parser.add_argument("--max-model-len", type=int, default=32_768, help="in tokens (default: 32768)")
    parser.add_argument("--journal", type=Path, help="file for one JSON line an exchange")
    parser.add_argument("--journal-limit", type=int, default=20_000, help="exchanges kept in memory")
    return parser.parse_args(argv)


async def serve(arguments: argparse.Namespace) -> None:
    """Serves until SIGTERM or SIGINT."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    engine = FakeEngine(
        models=tuple(arguments.model or ["fake"]),
        port=arguments.port,
        token_delay=timedelta(milliseconds=arguments.token_ms),
        slots=arguments.slots,
        max_model_len=arguments.max_model_len,
        journal=Journal(arguments.journal_limit, arguments.journal),
        on_death=lambda: os._exit(DEATH_STATUS),
    )
    async with engine:
        await stopped.wait()
    engine.journal.close()


if __name__ == "__main__":
    asyncio.run(serve(read_arguments()))
