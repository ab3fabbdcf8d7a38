"""Whose attempt is taken back from an engine whose cache thrashes. Called by core.taking_back.

Invariant: only what stands still in the engine, so that it has thrown away already what it had computed of it; of a request
at most once; and nobody at all where nothing goes on, which is another fault. First the largest, so that few are stopped.
"""

from collections.abc import Iterable
from typing import NamedTuple

from headrace.contracts.ids import AttemptId

STANDS_MS = 5_000
"""So long no token has come from an attempt that stands still: ten reports, and more than a step of any engine takes."""
MOST = 4
"""At a time; before more are taken the gauges must have shown that these weren't enough."""
LARGE = 32
"""Who takes a 32nd part of a cache is large. Only those are asked to keep their text so that they can be taken back: beside
so few of them, what reading their streams costs is little.
"""


class Inside(NamedTuple):
    """An attempt in the engine. `tokens`: of its prompt and its answer so far. `still_ms`: how long nothing has come from it;
    None: it doesn't tell. `goes_on`: a stop loses nothing that it has said. `stopped`: its request was stopped before.
    """

    attempt: AttemptId
    id: str
    tokens: int
    still_ms: int | None
    goes_on: bool = True
    stopped: bool = False

    @property
    def stands(self) -> bool:
        """Whether it is outside of the batch, or computed in vain."""
        return self.still_ms is not None and self.still_ms >= STANDS_MS

    @property
    def moves(self) -> bool:
        """Whether it is seen to get on."""
        return self.still_ms is not None and self.still_ms < STANDS_MS


def is_large(tokens: int, kv_tokens: int) -> bool:
    """Whether a request that comes to so many tokens may have to be taken back."""
    return LARGE * tokens >= kv_tokens


def whom_to_take_back(
    inside: Iterable[Inside], *, over: int, kv_tokens: int, ends: bool = False
) -> list[Inside]:
    """The largest first, until the rest is by `over` tokens less. `ends`: others have ended there lately."""
    known = list(inside)
    if not ends and not any(each.moves for each in known):
        return []
    able = [
        each for each in known
        if each.stands and each.goes_on and not each.stopped and is_large(each.tokens, kv_tokens)
    ]  # fmt: skip
    chosen = list[Inside]()
    for each in sorted(able, key=lambda each: (-each.tokens, tuple(-part for part in each.attempt))):
        if over <= 0 or len(chosen) == MOST:
            break
        chosen.append(each)
        over -= each.tokens
    return chosen
