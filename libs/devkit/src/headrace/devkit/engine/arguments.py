"""The command line of the engine's process: what `python -m headrace.devkit.engine` and `headrace dev engine` take.

Invariant: a limit that contradicts another ends the program with a sentence before anything is started.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from headrace.devkit.engine.core import Admission
from headrace.devkit.engine.profiles import INSTANT, PROFILES, Profile
from headrace.devkit.ports import LOOPBACK

POLICIES = ("fcfs", "priority")


def parser() -> argparse.ArgumentParser:
    """All arguments; None stands for the profile's own value."""
    made = argparse.ArgumentParser(
        prog="headrace.devkit.engine",
        description="An LLM engine without the model: vLLM's doors, timing and faults.",
    )
    add = made.add_argument
    add("--host", default=LOOPBACK, help="address to listen on (default: the loopback alone)")
    add("--port", type=int, required=True)
    add("--model", action="append", help="served model name, repeatable (default: fake)")
    add("--profile", choices=PROFILES, default=INSTANT.name, help="speed and limits (default: instant)")
    add("--seed", type=int, default=0, help="another seed, another text for the same prompt (default: 0)")
    add("--time-scale", type=float, default=1.0, help="seconds of the engine in a real one (default: 1)")
    add("--token-ms", type=float, help="every step takes this long, instead of what the profile says")
    add("--max-num-seqs", "--slots", type=int, help="requests that run at once")
    add("--max-num-batched-tokens", type=int, help="tokens computed in a step")
    add("--kv-blocks", type=int, help="blocks of 16 tokens in the KV cache")
    add("--max-model-len", type=int, help="longest prompt with its answer, in tokens")
    add("--scheduling-policy", choices=POLICIES, default="fcfs", help="who is first (default: fcfs)")
    add("--no-prefix-caching", action="store_true", help="compute every prompt anew")
    add(
        "--output-tokens",
        help="FROM-TO: an answer's own length, by its prompt's hash (default: 16, max_tokens wins)",
    )
    add("--max-num-queued-reqs", type=int, help="refuse a request when so many wait (default: never)")
    add("--busy-status", type=int, choices=(429, 503), default=503, help="the status of that refusal")
    add("--busy-retry-after", type=int, default=0, help="its Retry-After in seconds (default: none)")
    add("--requests-per-minute", type=int, help="refuse more with 429, as a hosted API (default: never)")
    add(
        "--ignore-plain-disconnect",
        action="store_true",
        help="work on when the caller of a plain call leaves",
    )
    add("--journal", type=Path, help="file for one JSON line an exchange")
    add("--journal-limit", type=int, default=20_000, help="exchanges kept in memory")
    return made


def profile_of(arguments: argparse.Namespace) -> Profile:
    """The profile that was named, with what was given besides. Raises ValueError."""
    given = {
        name: getattr(arguments, name)
        for name in ("max_num_seqs", "max_num_batched_tokens", "kv_blocks", "max_model_len")
        if getattr(arguments, name) is not None
    }
    profile = PROFILES[arguments.profile]
    if arguments.token_ms is not None:
        profile = profile.paced(timedelta(milliseconds=arguments.token_ms))
    return replace(
        profile,
        by_priority=arguments.scheduling_policy == "priority",
        prefix_caching=not arguments.no_prefix_caching,
        **given,
    )


def lengths_of(spelling: str | None) -> tuple[int, int] | None:
    """`FROM-TO`, or one number for both. Raises ValueError."""
    if spelling is None:
        return None
    shortest, _, longest = spelling.partition("-")
    lengths = int(shortest), int(longest or shortest)
    if not 0 < lengths[0] <= lengths[1]:
        raise ValueError(f"output-tokens {spelling!r}: give FROM-TO, at least 1, as in 8-200")
    return lengths


def admission_of(arguments: argparse.Namespace) -> Admission:
    """How many may wait, and come."""
    return Admission(
        per_minute=arguments.requests_per_minute,
        most_waiting=arguments.max_num_queued_reqs,
        status=arguments.busy_status,
        retry_after_s=arguments.busy_retry_after,
    )


def understood(argv: Sequence[str]) -> argparse.Namespace:
    """The command line, with `made_profile` and `lengths` made of it. Raises ValueError for what can't be meant."""
    arguments = parser().parse_args(argv)
    if not arguments.time_scale > 0:
        raise ValueError("time-scale is greater than 0")
    arguments.made_profile, arguments.lengths = profile_of(arguments), lengths_of(arguments.output_tokens)
    return arguments


def read_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """As `understood`, of this process's own command line; ends the program when it is wrong."""
    try:
        return understood(sys.argv[1:] if argv is None else argv)
    except ValueError as error:
        parser().error(str(error))
