"""`headrace dev up`: everything for development on this machine, until Ctrl-C. Prints a curl line that works."""

import asyncio
import signal
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.curl import chat_line
from headrace.cli.downloads import showing_downloads
from headrace.cli.options import AsJson
from headrace.cli.stack.backends import TENANT, Kind, Served, Wanted, chosen, serving, serving_here
from headrace.cli.stack.memory import MemoryStack
from headrace.cli.stack.processes import Stack
from headrace.cli.terminal import say, say_json
from headrace.cli.until_stopped import Interrupted, until_stopped
from headrace.devkit.broker import choose_broker
from headrace.runtime.logging import configure_logging

GRACE = timedelta(seconds=5)


class BusKind(StrEnum):
    """On what the services talk."""

    KAFKA = "kafka"
    MEMORY = "memory"


BusOption = Annotated[
    BusKind, typer.Option(help="kafka: a real broker; memory: one process, nothing is kept.")
]
Url = Annotated[str | None, typer.Option("--backend", help="URL of a backend of your own, without /v1.")]
KindOption = Annotated[Kind, typer.Option(help="How --backend is spoken to.")]
Name = Annotated[str, typer.Option("--model-name", help="The model that --backend serves.")]
Model = Annotated[bool, typer.Option("--model", help="The small real model; the default with kafka.")]
Engine = Annotated[bool, typer.Option("--engine", help="The fake engine; the default with memory.")]
Port = Annotated[int, typer.Option(help="Port of the API; 0: a free one.")]


@dataclass(frozen=True, slots=True)
class Up:
    """What someone needs who wants to use it. The last three are None where no broker was started."""

    url: str
    key: str
    model: str
    kafka: str | None = None
    policy: str | None = None
    logs: str | None = None


def up(
    bus: BusOption = BusKind.KAFKA,
    backend: Url = None,
    kind: KindOption = Kind.OPENAI,
    name: Name = "default",
    model: Model = False,
    engine: Engine = False,
    port: Port = 0,
    as_json: AsJson = False,
) -> None:
    """Start everything for development; Ctrl-C stops it."""
    by_default = Served.MODEL if bus is BusKind.KAFKA else Served.ENGINE
    served = chosen(backend, model=model, engine=engine, by_default=by_default)
    wanted = Wanted(served, (backend or "").rstrip("/"), kind, name)
    with tempfile.TemporaryDirectory(prefix="headrace-dev-") as folder:
        if bus is BusKind.MEMORY:
            asyncio.run(_in_memory(wanted, Path(folder), port, as_json=as_json))
        else:
            _on_kafka(wanted, Path(folder), port, as_json=as_json)


def _on_kafka(wanted: Wanted, folder: Path, port: int, *, as_json: bool) -> None:
    with until_stopped() as stopped, ExitStack() as undo:
        stopped.eager = True
        try:
            undo.callback(stopped.calm)
            progress = undo.enter_context(showing_downloads(quiet=as_json))
            backend = undo.enter_context(serving(wanted, folder))
            broker = undo.enter_context(choose_broker(progress=progress))
            stack = Stack(
                folder=folder,
                policy=wanted.policy,
                backends=[backend],
                bootstrap=broker.bootstrap,
                port=port,
                grace=GRACE,
            )
            undo.enter_context(stack)
            undo.callback(stopped.calm)
            told = Up(
                stack.url,
                stack.keys[TENANT],
                wanted.model,
                kafka=stack.bootstrap,
                policy=str(stack.policy_path),
                logs=str(folder / "logs"),
            )
            _tell(told, as_json=as_json)
            stopped.calm()
            stopped.wait()
        except Interrupted:
            stopped.calm()


async def _in_memory(wanted: Wanted, folder: Path, port: int, *, as_json: bool) -> None:
    configure_logging("headrace-dev", "warning", "console")
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with serving_here(wanted, folder) as backend:
        stack = MemoryStack(folder=folder, policy=wanted.policy, backend=backend, port=port)

        def listening(url: str) -> None:
            _tell(Up(url, stack.keys[TENANT], wanted.model), as_json=as_json)

        await stack.serve(stop, listening)


def _tell(up: Up, *, as_json: bool) -> None:
    line = chat_line(up.url, up.key, up.model)
    if as_json:
        say_json({**asdict(up), "curl": line})
        return
    say(f"headrace answers at {up.url}")
    if up.kafka is not None:
        say(f"Kafka:   {up.kafka}")
        say(f"policy:  {up.policy}")
        say(f"logs:    {up.logs}")
    say("Ask it something:")
    say(line)
    if up.kafka is not None:
        say("Look into it from another terminal; queue, why and workers find it by the same two variables:")
        say(f"HEADRACE_KAFKA={up.kafka} HEADRACE_POLICY={up.policy} headrace pools show")
    say("Ctrl-C stops it; nothing is kept.")
