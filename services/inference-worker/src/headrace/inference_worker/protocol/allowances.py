"""What the backend's last answer said is left of its limits, less what was begun since. Kept by one boot of a worker.

Whether what was taken comes back evenly, as from a bucket that is filled steadily, or all at once, at the end of a window, no
single answer tells: a window that was used up at its begin looks like an empty bucket. So it is believed once an answer with
half or more left said so, and never again once such an answer said otherwise; one with hardly anything taken says neither.

Invariant: the answer whose call was begun last counts, and what was begun after it is taken off, since that answer can't have
known of it; what was begun before it the backend has counted itself.
"""

from typing import NamedTuple

from msgspec.structs import replace

from headrace.contracts.clock import Now
from headrace.contracts.commands import Run
from headrace.contracts.ids import AttemptId
from headrace.contracts.reports import MOST_PER_MINUTE, Allowed, Left

_MINUTE_MS = 60_000
_TELLING = 4


class _Begun(NamedTuple):
    """All that was begun up to now: calls, and the tokens that they may take."""

    calls: int = 0
    tokens: int = 0


class _Said(NamedTuple):
    allowed: Allowed
    begun: _Begun
    at_ms: int


def most_tokens_of(run: Run) -> int:
    """As APIs count a request before it is answered: its prompt and its cap."""
    request = run.request
    return max(run.expects, request.prompt_tokens + (request.max_tokens or 0))


class _Pace:
    """Whether what was taken comes back evenly, as far as is known of requests, or of tokens."""

    def __init__(self) -> None:
        self._even, self._uneven = False, False

    def known(self, said: Left | None) -> Left | None:
        """What an answer said, as far as it is believed."""
        if said is None or said.left is None or said.limit is None:
            return said
        if 2 * said.left >= said.limit and said.limit - said.left >= _TELLING:
            self._even, self._uneven = self._even or said.steady, self._uneven or not said.steady
        return replace(said, steady=said.steady and self._even and not self._uneven)


class Allowances:
    """Of one boot. Instants are ms since boot."""

    def __init__(self) -> None:
        self._begun = _Begun()
        self._of: dict[AttemptId, _Begun] = {}
        """What was begun up to and with each call that runs."""
        self._said: _Said | None = None
        self._requests, self._tokens = _Pace(), _Pace()
        self._through = AttemptId(0, 0)

    def begins(self, run: Run) -> None:
        """It is called now."""
        self._begun = _Begun(self._begun.calls + 1, self._begun.tokens + most_tokens_of(run))
        self._of[run.attempt], self._through = self._begun, max(self._through, run.attempt)

    def ended(self, attempt: AttemptId) -> None:
        """Its call says nothing more."""
        self._of.pop(attempt, None)

    def heard(self, attempt: AttemptId, allowed: Allowed, slots: int, now: Now) -> bool:
        """The head of its answer has come; whether the owner should hear at once what is left: it doesn't know that anything
        is, or it is little.
        """
        begun, known = self._of.get(attempt), _knows(self.told(now))
        if begun is None or (self._said is not None and self._said.begun.calls > begun.calls):
            return False
        requests, tokens = self._requests.known(allowed.requests), self._tokens.known(allowed.tokens)
        self._said = _Said(Allowed(requests=requests, tokens=tokens), begun, now.boot_ms)
        return (_knows(allowed) and not known) or self._is_low(slots, now)

    def told(self, now: Now) -> Allowed | None:
        """What is left of it now; None: nothing was ever said."""
        if self._said is None:
            return None
        allowed, begun, at_ms = self._said
        age_ms = max(0, now.boot_ms - at_ms)
        return Allowed(
            requests=_now(allowed.requests, self._begun.calls - begun.calls, age_ms),
            tokens=_now(allowed.tokens, self._begun.tokens - begun.tokens, age_ms),
            through=self._through,
        )

    def _is_low(self, slots: int, now: Now) -> bool:
        """Whether the backend might refuse what its owner sends before it hears of it."""
        told = self.told(now)
        if told is None:
            return False
        each = self._begun.tokens // max(1, self._begun.calls)
        return _is_less(told.requests, slots) or _is_less(told.tokens, slots * each)


def _knows(said: Allowed | None) -> bool:
    lefts = () if said is None else (said.requests, said.tokens)
    return any(each is not None and each.left is not None for each in lefts)


def _is_less(left: Left | None, wanted: int) -> bool:
    return left is not None and left.left is not None and left.left <= wanted


def _now(said: Left | None, begun: int, age_ms: int) -> Left | None:
    if said is None:
        return None
    if said.left is None or age_ms >= said.reset_ms:
        return None if said.limit is None else Left(limit=said.limit)
    left, limit = said.left, said.limit
    if said.steady and limit is not None:
        left = min(limit, left + limit * age_ms // _MINUTE_MS)
    left = max(-MOST_PER_MINUTE, left - begun)
    return Left(left=left, reset_ms=said.reset_ms - age_ms, limit=limit, steady=said.steady)
