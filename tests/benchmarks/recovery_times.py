"""How long nothing went on after a kill, from what was submitted, released and stored. Called by recovery.

Instants are Unix ms, what is answered is seconds.
"""

from dataclasses import dataclass
from typing import Any

from tests.support.checker.history import Record

WATCH_S = 14.0
"""How long after a kill is looked at."""
PROMPT_MS = 1_000
"""A submit that takes no longer is neither failed nor waiting."""


@dataclass(frozen=True, slots=True)
class Submit:
    """One try at the door, in Unix ms. `status` 0: no answer came."""

    began_ms: int
    ended_ms: int
    status: int
    id: str


def taken_up(runs: list[Record], rows: list[dict[str, Any]], at_ms: int, boots: set[str]) -> float:
    """From the kill until the first request that the dead worker held has ended."""
    ends = {row["id"]: row["finished_ms"] for row in rows}
    sent = [each for each in runs if each.record["type"] == "run" and each.at_ms is not None]
    held = {
        each.record["request"]["id"]
        for each in sent
        if each.record["boot"] in boots and (each.at_ms or 0) <= at_ms
    }
    again = {
        each.record["request"]["id"]
        for each in sent
        if each.record["boot"] not in boots and (each.at_ms or 0) > at_ms
    }
    gaps = [ends[request] - at_ms for request in held & again if request in ends]
    return min((gap for gap in gaps if gap > 0), default=10**6) / 1000


def next_released(rows: list[dict[str, Any]], at_ms: int) -> float:
    """From the kill until a request that was released afterwards has ended."""
    ends = [row["finished_ms"] for row in rows if (row["dispatched_ms"] or 0) > at_ms + 100]
    return (min(ends, default=10**6 + at_ms) - at_ms) / 1000


def longest_stall(rows: list[dict[str, Any]], at_ms: int) -> float:
    """The longest that a finished request waited for its commit, of those that the kill made wait."""
    waits = [
        row["committed_ms"] - max(at_ms, row["finished_ms"])
        for row in rows
        if row["finished_ms"] and row["committed_ms"] > at_ms and row["finished_ms"] < at_ms + WATCH_S * 1000
    ]
    return max(waits, default=10**6) / 1000


def longest_trouble(submits: list[Submit], begin_ms: int, end_ms: int) -> float:
    """The longest stretch after a broker's death in which submits failed or had to wait, from the first's begin."""
    troubled = sorted(
        (submit.began_ms, submit.ended_ms)
        for submit in submits
        if begin_ms <= submit.ended_ms and submit.began_ms <= end_ms
        and (submit.status != 202 or submit.ended_ms - submit.began_ms > PROMPT_MS)
    )  # fmt: skip
    longest, first, last = 0, 0, 0
    for began_ms, ended_ms in troubled:
        if began_ms > last:
            first = max(began_ms, begin_ms)
        last = max(last, ended_ms)
        longest = max(longest, last - first)
    return longest / 1000
