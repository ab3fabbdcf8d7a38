"""How far estimates of waits were off of late: of some requests it is noted what was expected when they came. Used by
core.forecasting.

Invariant: so many at most, by count, and however long waits are: the longer, the further apart those are that are noted, so
that they are still known when they end. What still waits for longer than was expected counts as far as it is off already, so
that a queue that grows isn't judged by those alone that got through. Not checkpointed.
"""

from collections import defaultdict, deque
from typing import NamedTuple, Protocol

from headrace.scheduler.decisions.estimate_wait import off_by

REMEMBERED = 128
"""Of each tier; also how many may be under way."""
_OFTEN_MS = 100
"""So often one is noted at most: what it costs the owner doesn't depend on how many come."""


class Known(Protocol):
    """Ids of requests."""

    def __contains__(self, request_id: str, /) -> bool: ...


class _Noted(NamedTuple):
    """`expected_ms` from `at_ms` on, ms since boot."""

    tier: str
    at_ms: int
    expected_ms: int


class WaitErrors:
    """What was expected, and what came. `newest`: the id of the request that came last in this step; None: none did."""

    def __init__(self) -> None:
        self.newest: str | None = None
        self._every_ms, self._next_ms = _OFTEN_MS, 0
        self._noted: dict[str, _Noted] = {}
        self._came: defaultdict[str, deque[int]] = defaultdict(lambda: deque(maxlen=REMEMBERED))

    def is_due(self, boot_ms: int) -> bool:
        """Whether another is to be noted now."""
        return boot_ms >= self._next_ms

    def note(self, request_id: str, tier: str, expected_ms: int, *, boot_ms: int, known: Known) -> None:
        """It waits now, and is expected to wait so long. `known`: those that haven't ended, and may be served. Where there is
        no room, every second of those before it goes, whatever it waits for, and from now on half as many are noted.
        """
        self._noted = {each: noted for each, noted in self._noted.items() if each in known}
        if len(self._noted) >= REMEMBERED:
            self._noted = dict(list(self._noted.items())[1::2])
            self._every_ms *= 2
        elif len(self._noted) < REMEMBERED // 4:
            self._every_ms = max(_OFTEN_MS, self._every_ms // 2)
        self._noted[request_id] = _Noted(tier, boot_ms, expected_ms)
        self._next_ms = boot_ms + self._every_ms

    def started(self, request_id: str, boot_ms: int) -> None:
        """It waits no more; of most nothing was noted."""
        noted = self._noted.pop(request_id, None)
        if noted is not None:
            self._came[noted.tier].append(off_by(boot_ms - noted.at_ms, noted.expected_ms))

    def of(self, tier: str, boot_ms: int) -> list[int]:
        """Waits over what was expected, in thousandths, the least first."""
        overdue = (
            off_by(boot_ms - noted.at_ms, noted.expected_ms)
            for noted in self._noted.values()
            if noted.tier == tier and boot_ms - noted.at_ms > noted.expected_ms
        )
        return sorted([*self._came.get(tier, ()), *overdue])
