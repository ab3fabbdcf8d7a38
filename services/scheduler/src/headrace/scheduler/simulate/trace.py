"""Reads traces: who asked for how much, and when. Called with the lines of a CSV file.

Columns: `t_s` (seconds since the first request), `input_tokens`, `output_tokens`; optional are `cached_tokens` or
`prefix_blocks_seen` (512-token blocks of the prompt that a cache had), `tenant` and `tier`. With `prefix_of` (the number of
an earlier row, from 0, which begins with the same `prefix_blocks_seen` blocks) and `prefix_blocks` (how many the prompt has)
caches of backends can be simulated. Others are ignored.
Invariant: all mistakes of a file are told at once, a sentence each, with the line; what is returned is in order of time.
"""

import csv
from collections.abc import Iterable, Iterator
from itertools import count, islice
from typing import NamedTuple

from headrace.contracts.prefixes import BLOCK_TOKENS

NEEDED = ("t_s", "input_tokens", "output_tokens")
_MOST_TOLD = 10
_MOST_TOKENS = 10**8
_MOST_SECONDS = 366 * 86_400
_MOST_BLOCKS = 10**5
_COMMON_BLOCKS = 1
"""So many blocks are what an operator says to all; whoever shares more goes on with a conversation."""


class TraceError(Exception):
    """The trace can't be used; `sentences` says why."""

    def __init__(self, sentences: list[str]) -> None:
        super().__init__("\n".join(sentences))
        self.sentences = tuple(sentences)


class Asked(NamedTuple):
    """One request of a trace. `at_ms` since its first request; `tenant` and `tier` are None where the trace names none.

    `blocks`: of its prompt, each a number that stands for all up to its end; none where the trace doesn't say which prompts
    begin alike. `conversation`: a number that it has in common with those whose prompts it goes on with.
    """

    at_ms: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    tenant: str | None = None
    tier: str | None = None
    blocks: tuple[int, ...] = ()
    conversation: int | None = None


def read_trace(lines: Iterable[str], name: str) -> list[Asked]:
    """The requests in a CSV text, of which `name` is told in errors. Raises TraceError."""
    rows = csv.DictReader(lines)
    if missing := [column for column in NEEDED if column not in (rows.fieldnames or ())]:
        raise TraceError([f"{name}: the trace has no column {column}" for column in missing])
    found, wrong, fresh = list[Asked](), list[str](), count()
    for row in rows:
        try:
            asked = _asked(row)
            found.append(
                _with_blocks(asked, row, found, fresh) if row.get("prefix_of") is not None else asked
            )
        except ValueError as error:
            wrong.append(f"{name}, line {rows.line_num}: {error}")
    if wrong:
        more = [f"{name}: and {len(wrong) - _MOST_TOLD} more lines"] if len(wrong) > _MOST_TOLD else []
        raise TraceError(wrong[:_MOST_TOLD] + more)
    if not found:
        raise TraceError([f"{name}: the trace has no requests"])
    return _from_zero(sorted(found, key=lambda asked: asked.at_ms))


def half_of(trace: list[Asked], half: str) -> list[Asked]:
    """`first` or `second` half by time, or the `whole`: what was tuned on one half is tried on the other.

    Raises TraceError, also when nothing is in that half.
    """
    if half not in ("first", "second", "whole"):
        raise TraceError([f'the half of a trace is first, second or whole, not "{half}"'])
    if half == "whole":
        return trace
    middle = trace[-1].at_ms / 2
    kept = [asked for asked in trace if (asked.at_ms < middle) == (half == "first")]
    if not kept:
        raise TraceError([f"the {half} half of the trace has no requests"])
    return _from_zero(kept)


def _asked(row: dict[str, str]) -> Asked:
    asked = Asked(
        at_ms=round(_number(row, "t_s", _MOST_SECONDS) * 1000),
        input_tokens=_tokens(row, "input_tokens"),
        output_tokens=max(1, _tokens(row, "output_tokens")),
        cached_tokens=_cached(row),
        tenant=row.get("tenant") or None,
        tier=row.get("tier") or None,
    )
    return asked._replace(cached_tokens=min(asked.cached_tokens, asked.input_tokens))


def _with_blocks(asked: Asked, row: dict[str, str], before: list[Asked], fresh: Iterator[int]) -> Asked:
    """With its prompt's blocks: those of the row that it begins as, and `fresh` ones."""
    blocks, seen = _number_of(row, "prefix_blocks", _MOST_BLOCKS), 0
    alike: Asked | None = None
    if row["prefix_of"]:
        number = _number_of(row, "prefix_of", len(before) - 1)
        alike, seen = before[number], _number_of(row, "prefix_blocks_seen", blocks)
        if seen > len(alike.blocks):
            raise ValueError(f"row {number} hasn't {seen} blocks")
    own = tuple(islice(fresh, blocks - seen))
    same = alike is not None and seen > _COMMON_BLOCKS
    return asked._replace(
        blocks=own if alike is None else alike.blocks[:seen] + own,
        conversation=alike.conversation if alike is not None and same else len(before),
    )


def _cached(row: dict[str, str]) -> int:
    if row.get("cached_tokens"):
        return _tokens(row, "cached_tokens")
    return _tokens(row, "prefix_blocks_seen") * BLOCK_TOKENS if row.get("prefix_blocks_seen") else 0


def _tokens(row: dict[str, str], column: str) -> int:
    return _number_of(row, column, _MOST_TOKENS)


def _number_of(row: dict[str, str], column: str, most: int) -> int:
    number = _number(row, column, most)
    if number != int(number):
        raise ValueError(f"{column} is {row[column]}, which isn't a whole number")
    return int(number)


def _number(row: dict[str, str], column: str, most: int) -> float:
    text = row[column]
    try:
        number = float(text)
    except (TypeError, ValueError):
        raise ValueError(f"{column} is {text!r}, which isn't a number") from None
    if not 0 <= number <= most:
        raise ValueError(f"{column} is {text}, which isn't between 0 and {most}")
    return number


def _from_zero(trace: list[Asked]) -> list[Asked]:
    first_ms = trace[0].at_ms
    return [asked._replace(at_ms=asked.at_ms - first_ms) for asked in trace]
