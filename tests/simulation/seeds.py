"""Which seeds are run, what they must have met, and those that once found something. Used by the tests and the command line.

A seed is a history of the world as it is now: when the world changes, a regression's seed may no longer meet what it once
found, which is why each has a test of its own beside the fix.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from tests.simulation.world.run import Verdict, run_seed

EVERY_TIME = range(500)

REGRESSIONS: tuple[tuple[int, str], ...] = (
    (
        54,
        "a text went on with another attempt's, without a restart, behind an attempt of which nothing was shown",
    ),
    (974, "a claim that another had overtaken took the logs for cut short and stopped the pool for good"),
)

SOMETIMES = (
    "takeover with work in flight",
    "suppressed second result",
    "lagging reader at a takeover",
    "duplicates",
    "duplicate produce",
    "preempted",
    "text gone on from",
    "text read again",
    "buried zombie",
    "drain under load",
    "clean stop of an owner",
    "restart shown to a reader",
    "stream that could not be mended",
    "mended stream",
    "lost chunk",
    "lost command",
    "lost acknowledgement",
    "crash loop",
    "partition out",
    "broker out",
    "database down",
    "lost answer of a commit",
    "member put out goes on",
    "kill in the middle of a step",
    "kill of SimScheduler",
    "kill of SimWorker",
    "kill of SimDeliverer",
    "kill of SimGateway",
    "pause of SimScheduler",
    "pause of SimWorker",
    "pause of SimDeliverer",
    "clock jump",
    "backend down",
    "attempts_retry_at",
    "attempts_lost",
    "attempts_worker_died",
    "ended_expired",
    "ended_cancelled",
    "ended_dead_lettered",
    "paused partition",
    "cache full",
    "spilled",
    "read_again",
    "rerouted",
    "paced",
    "warm",
    "passed",
    "order CancelMatching",
    "order MoveMatching",
    "order Reprioritise",
    "order Freeze",
    "order Thaw",
    "order MovePool",
    "seen queued",
    "seen dispatched",
    "seen running",
    "seen succeeded",
)
"""A run that never met these has tested nothing: each must have been seen over EVERY_TIME."""


def run_all(seeds: Iterable[int]) -> Iterator[Verdict]:
    """One verdict after the other."""
    for seed in seeds:
        yield run_seed(seed)


def never_seen(seen: Counter[str]) -> list[str]:
    """What should have been met, and wasn't."""
    return [what for what in SOMETIMES if not seen[what]]


def told(verdict: Verdict, most: int = 400) -> str:
    """A run for a person: what is wrong, then the history, one line an event: virtual ms, process, what."""
    lines = [f"{at:8} {who:12} {what}" for at, who, what in verdict.notes]
    if len(lines) > most:
        lines = [*lines[: most // 2], f"... {len(lines) - most} lines ...", *lines[-most // 2 :]]
    return "\n".join([f"seed {verdict.seed}:", *verdict.bad, "", *lines])
