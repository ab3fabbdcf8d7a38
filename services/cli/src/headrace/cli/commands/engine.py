"""`headrace dev engine`: an engine without a model, in a process of its own, until Ctrl-C.

Invariant: every option is one of `python -m headrace.devkit.engine`, which checks them before a process is started.
"""

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.options import AsJson
from headrace.cli.serving import run_until_stopped
from headrace.cli.terminal import say_json, show_table
from headrace.devkit.engine.arguments import understood
from headrace.devkit.engine.profiles import PROFILES
from headrace.devkit.engine.table import COLUMNS, rows
from headrace.devkit.ports import free_port
from headrace.devkit.served import EngineProcess


class Speed(StrEnum):
    """The profiles."""

    INSTANT = "instant"
    TINY = "tiny"
    H100 = "h100-llama8b"
    CONSERVATIVE = "conservative"


class Scheduling(StrEnum):
    """Who is first."""

    FCFS = "fcfs"
    PRIORITY = "priority"


class Busy(StrEnum):
    """How a full queue is told."""

    AS_VLLM = "503"
    AS_TGI = "429"


Port = Annotated[int | None, typer.Option(help="Port; default: a free one.")]
Profile = Annotated[Speed, typer.Option(help="Speed and limits; --table shows them.")]
Seed = Annotated[int, typer.Option(help="Another seed, another text for the same prompt.")]
Models = Annotated[
    list[str] | None, typer.Option("--model", help="A name it serves; repeatable; default: fake.")
]
TokenMs = Annotated[float | None, typer.Option(help="Milliseconds of every step, instead of the profile's.")]
TimeScale = Annotated[float, typer.Option(help="Seconds of the engine in a real one.")]
Seqs = Annotated[int | None, typer.Option(help="Requests that run at once.")]
Batched = Annotated[int | None, typer.Option(help="Tokens computed in a step, prompts and answers together.")]
Blocks = Annotated[int | None, typer.Option(help="Blocks of 16 tokens in the KV cache.")]
Context = Annotated[int | None, typer.Option(help="Longest prompt with its answer, in tokens.")]
Order = Annotated[Scheduling, typer.Option(help="Who is first.")]
NoPrefix = Annotated[bool, typer.Option("--no-prefix-caching", help="Compute every prompt anew.")]
Lengths = Annotated[str | None, typer.Option(help="FROM-TO: an answer's own length, by its prompt's hash.")]
MostQueued = Annotated[int | None, typer.Option(help="Refuse a request when so many wait; default: never.")]
BusyStatus = Annotated[Busy, typer.Option(help="The status of that refusal.")]
RetryAfter = Annotated[int, typer.Option(help="Its Retry-After in seconds; 0: none.")]
MostPerMinute = Annotated[
    int | None, typer.Option(help="Refuse more in a minute with 429, as a hosted API; default: never.")
]
Unnoticed = Annotated[
    bool, typer.Option("--ignore-plain-disconnect", help="Work on when the caller of a plain call leaves.")
]
JournalFile = Annotated[Path | None, typer.Option(help="File for one JSON line an exchange.")]
AsTable = Annotated[bool, typer.Option("--table", help="Print how fast each profile is; starts nothing.")]


def engine(
    *,
    port: Port = None,
    profile: Profile = Speed.INSTANT,
    seed: Seed = 0,
    model: Models = None,
    token_ms: TokenMs = None,
    time_scale: TimeScale = 1.0,
    max_num_seqs: Seqs = None,
    max_num_batched_tokens: Batched = None,
    kv_blocks: Blocks = None,
    max_model_len: Context = None,
    scheduling_policy: Order = Scheduling.FCFS,
    no_prefix_caching: NoPrefix = False,
    output_tokens: Lengths = None,
    max_num_queued_reqs: MostQueued = None,
    busy_status: BusyStatus = Busy.AS_VLLM,
    busy_retry_after: RetryAfter = 0,
    requests_per_minute: MostPerMinute = None,
    ignore_plain_disconnect: Unnoticed = False,
    journal: JournalFile = None,
    table: AsTable = False,
    as_json: AsJson = False,
) -> None:
    """Run an engine without a model (vLLM's doors, batching and failures) until Ctrl-C; prints its URL."""
    if table:
        _show_profiles(as_json=as_json)
        return
    options = {
        "profile": profile, "seed": seed, "model": model, "token-ms": token_ms, "time-scale": time_scale,
        "max-num-seqs": max_num_seqs, "max-num-batched-tokens": max_num_batched_tokens, "kv-blocks": kv_blocks,
        "max-model-len": max_model_len, "scheduling-policy": scheduling_policy, "output-tokens": output_tokens,
        "no-prefix-caching": no_prefix_caching, "max-num-queued-reqs": max_num_queued_reqs,
        "busy-status": busy_status, "busy-retry-after": busy_retry_after, "journal": journal,
        "requests-per-minute": requests_per_minute, "ignore-plain-disconnect": ignore_plain_disconnect,
    }  # fmt: skip
    arguments, port = list(_spelled(options)), port or free_port()
    understood(["--port", str(port), *arguments])
    server = EngineProcess(*arguments, port=port)
    run_until_stopped(server, lambda: ("engine", server.url), as_json=as_json)


def _spelled(options: dict[str, object]) -> Iterator[str]:
    """The options that were given, as the engine's process takes them."""
    for name, value in options.items():
        if value is True:
            yield f"--{name}"
        elif value is not None and value is not False:
            for one in value if isinstance(value, list) else [value]:
                yield f"--{name}={one}"


def _show_profiles(*, as_json: bool) -> None:
    """How fast each profile is at some loads."""
    shown = [(name, *row) for name, profile in PROFILES.items() for row in rows(profile)]
    columns = ("profile", *COLUMNS)
    if as_json:
        say_json([dict(zip(columns, row, strict=True)) for row in shown])
    else:
        show_table(columns, shown)
