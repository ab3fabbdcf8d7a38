"""What backends have been given of what they take in a minute, by their workers' names. Charged by core.backend_pacing.

Invariant: it outlives a worker's boot, since its backend goes on counting, and is dropped once nothing is owed and no worker
of that name lives.
"""

from collections.abc import Container, Iterator

from headrace.contracts.checkpoints import BackendPaced
from headrace.contracts.reports import PerMinute
from headrace.scheduler.decisions.what_does_a_backend_take import ceilings_of
from headrace.scheduler.state.ceilings import Ceilings


class BackendCeilings(Ceilings):
    """All of a pool's. Whose: a worker's name."""

    def __init__(self) -> None:
        super().__init__([], {})
        self._told: dict[str, PerMinute] = {}
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

    def is_closed(self, worker: str) -> bool:
        """Whether its backend has been given what it takes."""
        return worker in self.closed

    def forget_gone(self, live: Container[str], boot_ms: int) -> Iterator[str]:
        """Drop those that owe nothing any more; yields who they were."""
        yield from [whose for whose in self.forget_idle(boot_ms) if whose is not None]
        for worker in [each for each in self._told if each not in live and not self.debts(each, boot_ms)]:
            self.take(worker, None, boot_ms)
