"""What backends have been given of what they take in a minute, which asked to be spared, and which have nothing left, by
their workers' names. Kept by core.backend_pacing.

Invariant: it outlives a worker's boot, since its backend goes on counting, and is dropped once nothing is owed and no worker
of that name lives.
"""

from collections.abc import Container, Iterator

from headrace.contracts.checkpoints import BackendPaced
from headrace.contracts.reports import PerMinute
from headrace.scheduler.decisions.what_does_a_backend_take import ceilings_of
from headrace.scheduler.decisions.what_has_a_backend_left import Rests
from headrace.scheduler.state.ceilings import Ceilings

MOST_SPARED_MS = 60_000
"""A backend that asks for longer is tried again all the same: it may lie, or its limit have been raised."""


class BackendCeilings(Ceilings):
    """All of a pool's. Whose: a worker's name."""

    def __init__(self) -> None:
        super().__init__([], {})
        self._told: dict[str, PerMinute] = {}
        self.spared: dict[str, int] = {}
        """Workers whose backends asked for it with a 429, and until when."""
        self.rests: dict[str, Rests] = {}
        """What workers' backends said is left, as long as that is known."""
        self._empty: dict[str, int] = {}
        """Workers whose backends have nothing left, and until when."""
        self.last_said: dict[str, BackendPaced] = {}
        """By worker: what the last owner left, counted from the claim on."""

    def told(self, worker: str) -> PerMinute | None:
        """What a worker's backend takes, as it was last told."""
        return self._told.get(worker)

    def take(self, worker: str, per_minute: PerMinute | None, boot_ms: int) -> None:
        """A worker says what its backend takes."""
        if self._told.get(worker) == per_minute:
            return
        if per_minute is None:
            del self._told[worker]
        else:
            self._told[worker] = per_minute
        self.hold(worker, ceilings_of(per_minute), boot_ms)

    def __bool__(self) -> bool:
        return bool(self.spared or self.rests) or super().__bool__()

    def spare(self, worker: str, for_ms: int, boot_ms: int) -> None:
        """Its backend refused a request, and is to be given nothing for so long."""
        until_ms = boot_ms + min(for_ms, MOST_SPARED_MS)
        self.spared[worker] = max(until_ms, self.spared.get(worker, 0))

    def hear(self, worker: str, rests: Rests | None, boot_ms: int) -> None:
        """What its backend has left as its last answer said; None: nobody knows."""
        if rests is None or rests.until_ms <= boot_ms:
            self.rests.pop(worker, None)
            self._empty.pop(worker, None)
            return
        self.rests[worker] = rests
        if rests.opens_ms > boot_ms:
            self._empty[worker] = rests.opens_ms
        else:
            self._empty.pop(worker, None)

    def give(self, worker: str, tokens: int, boot_ms: int) -> None:
        """One more, which is expected to take so many tokens, goes to its backend."""
        if (rests := self.rests.get(worker)) is not None:
            self.hear(worker, rests.less(tokens), boot_ms)

    def until_ms(self, worker: str) -> int | None:
        """Until when its backend has asked to be spared, or has nothing left; None: neither."""
        known = [each[worker] for each in (self.spared, self._empty) if worker in each]
        return max(known, default=None)

    def is_closed(self, worker: str) -> bool:
        """Whether its backend has been given what it takes, asked to be spared, or has nothing left."""
        return worker in self.closed or worker in self.spared or worker in self._empty

    def turn(self, boot_ms: int) -> None:
        """Let those go on whose time has come."""
        super().turn(boot_ms)
        if self.spared:
            self.spared = {worker: at_ms for worker, at_ms in self.spared.items() if at_ms > boot_ms}
        if self.rests:
            for worker, rests in list(self.rests.items()):
                self.hear(worker, rests, boot_ms)

    def _openings(self) -> list[int]:
        return [*super()._openings(), *self.spared.values(), *self._empty.values()]

    def forget_gone(self, live: Container[str], boot_ms: int) -> Iterator[str]:
        """Drop those that owe nothing any more; yields who they were."""
        yield from [whose for whose in self.forget_idle(boot_ms) if whose is not None]
        for worker in [each for each in self._told if each not in live and not self.debts(each, boot_ms)]:
            self.take(worker, None, boot_ms)
