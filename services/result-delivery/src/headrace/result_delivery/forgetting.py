"""Deletes what has ended long ago from the database, where the policy says so. Called by the service when it is idle.

Invariant: only what has a result goes, a page at a time, so that no transaction is long; the ledger stays.
"""

from collections.abc import Callable
from datetime import timedelta

from headrace.contracts.durations import ms
from headrace.result_delivery.ports import Store
from headrace.runtime.clock import Clock
from headrace.runtime.logging import get_logger

PERIOD = timedelta(minutes=1)
_PAGE = 500


class Forgetting:
    """Looks once a minute, and goes on at once while there is more. `keep`: what the policy says now; None: for ever."""

    def __init__(self, store: Store, keep: Callable[[], timedelta | None], clock: Clock) -> None:
        self._store, self._keep, self._clock = store, keep, clock
        self._next_ms = clock.now().boot_ms

    def turn(self) -> None:
        """One page, when it is time. Raises StoreUnavailableError."""
        now, keep = self._clock.now(), self._keep()
        if keep is None or now.boot_ms < self._next_ms:
            return
        count = self._store.delete_ended(now.wall_ms - ms(keep), _PAGE)
        if count < _PAGE:
            self._next_ms = now.boot_ms + ms(PERIOD)
        if count:
            get_logger("forgetting").info("results deleted, as their time is over", count=count)
