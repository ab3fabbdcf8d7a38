"""What engines have found in their caches of late, by tenant and model. Used by core.estimating.

Invariant: integers, and at most so many kept, the least recently learnt dropped; a tenant whose engines never told of cached
tokens takes no room. Not checkpointed: until a new owner has learnt it, prompts are charged whole.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

from headrace.scheduler.decisions.how_much_is_cached import Share, Shares

_REMEMBERED = 64
"""Attempts: with that many, all count half."""
MOST = 20_000


@dataclass(slots=True)
class _Sum:
    """Recent attempts weigh more."""

    attempts: int = 0
    tokens: int = 0
    cached: int = 0

    def add(self, tokens: int, cached: int) -> None:
        self.attempts, self.tokens, self.cached = (
            self.attempts + 1,
            self.tokens + tokens,
            self.cached + cached,
        )
        if self.attempts >= _REMEMBERED:
            self.attempts, self.tokens, self.cached = self.attempts // 2, self.tokens // 2, self.cached // 2

    @property
    def share(self) -> Share:
        return Share(self.attempts, self.tokens, self.cached)


@dataclass(slots=True)
class _Sums:
    warm: _Sum = field(default_factory=_Sum)
    cold: _Sum = field(default_factory=_Sum)
    all_of_them: _Sum = field(default_factory=_Sum)


class CachedShares:
    """The sums."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._of: OrderedDict[tuple[str, str], _Sums] = OrderedDict()

    def __len__(self) -> int:
        return len(self._of)

    def learn(self, tenant: str, model: str, *, prompt: int, believed: int, cached: int) -> None:
        """An engine found `cached` tokens of a prompt, of which `believed` were thought to be there."""
        known = self._of.get((tenant, model))
        if known is None:
            if not cached:
                return
            known = self._of[tenant, model] = _Sums()
        self._of.move_to_end((tenant, model))
        if believed:
            known.warm.add(believed, cached)
        else:
            known.cold.add(prompt, cached)
        known.all_of_them.add(prompt, cached)
        while len(self._of) > self._most:
            self._of.popitem(last=False)

    def of(self, tenant: str, model: str) -> Shares | None:
        """What is known; None: nothing."""
        known = self._of.get((tenant, model))
        return None if known is None else Shares(known.warm.share, known.cold.share, known.all_of_them.share)
