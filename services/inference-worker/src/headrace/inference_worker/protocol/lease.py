"""Reports and the lease they give, and the worker's own pings. Used by one boot of the protocol core.

Invariant: one report is under way at a time, so an acknowledged one is the newest; the lease counts from its begin. After a
lapse, what lies in the lane may be from before a burial: nothing of it is trusted until a ping written later came back.
"""

from headrace.contracts.clock import Now
from headrace.contracts.durations import ms
from headrace.inference_worker.timings import Timings


class Lease:
    """When to report, and how old the last acknowledged report is. Instants are ms since boot."""

    def __init__(self, timings: Timings, now: Now) -> None:
        self._timings = timings
        self._acknowledged_begin = now.boot_ms
        self._under_way: tuple[int, int] | None = None
        self._next = now.boot_ms
        self._number = self._acknowledged = 0

    def report_now(self, now: Now) -> None:
        """Something happened that the owner waits to hear: report as soon as none is under way."""
        self._next = min(self._next, now.boot_ms)

    @property
    def next_number(self) -> int:
        """The number of the next report that will be begun: it tells all that is so now."""
        return self._number + 1

    def is_known(self, number: int) -> bool:
        """Whether this report, or one after it, is acknowledged: the owner reads it."""
        return self._acknowledged >= number

    @property
    def under_way(self) -> bool:
        """Whether a report is being written."""
        return self._under_way is not None

    def begin(self, now: Now) -> int | None:
        """The number of the report to write now, or None when none is due."""
        if self._under_way or now.boot_ms < self._next:
            return None
        self._number += 1
        self._under_way = (self._number, now.boot_ms)
        self._next = now.boot_ms + ms(self._timings.report_every)
        return self._number

    def written(self, number: int, *, acknowledged: bool, now: Now) -> bool:
        """What became of report `number`; whether it was acknowledged and ours."""
        if self._under_way is None or self._under_way[0] != number:
            return False
        _, begun = self._under_way
        self._under_way = None
        if not acknowledged:
            self._next = now.boot_ms + ms(self._timings.resend_after)
            return False
        self._acknowledged_begin, self._acknowledged = begun, number
        return True

    def lapsed(self, now: Now) -> bool:
        """Whether nothing new may be started."""
        return now.boot_ms - self._acknowledged_begin > ms(self._timings.lapse_after)

    def given_up(self, now: Now) -> bool:
        """Whether this boot must be taken for dead."""
        return now.boot_ms - self._acknowledged_begin > ms(self._timings.give_up_after)


class Pings:
    """Own pings in the own lane: what was acknowledged must come back, else the lane isn't really read."""

    def __init__(self, timings: Timings, now: Now) -> None:
        self._timings = timings
        self._next = now.boot_ms
        self._number = 0
        self._back = 0
        self._under_way = False
        self._waited_for: dict[int, int] = {}
        self._turned = now.boot_ms

    def turn(self, now: Now) -> None:
        """Once a step: a process that stood still for long couldn't have read, so the lane isn't blamed for that."""
        gap = now.boot_ms - self._turned
        self._turned = now.boot_ms
        if gap > ms(self._timings.paused_after):
            self._waited_for = {number: at + gap for number, at in self._waited_for.items()}

    def begin(self, now: Now) -> int | None:
        """The number of the ping to write now, or None."""
        if self._under_way or now.boot_ms < self._next:
            return None
        self._number += 1
        self._under_way = True
        self._next = now.boot_ms + ms(self._timings.ping_every)
        return self._number

    def ask_now(self, now: Now) -> int:
        """Write the next one as soon as none is under way; its number."""
        self._next = min(self._next, now.boot_ms)
        return self._number + 1

    @property
    def back(self) -> int:
        """The greatest number that was read from the lane."""
        return self._back

    def written(self, number: int, *, acknowledged: bool, now: Now) -> None:
        """What became of ping `number`. It may have been read before its acknowledgement came."""
        self._under_way = False
        if acknowledged and number > self._back:
            self._waited_for[number] = now.boot_ms

    def came_back(self, number: int) -> None:
        """Ping `number` was read from the lane; so was every earlier one, for a lane has one order."""
        self._back = max(self._back, number)
        self._waited_for = {n: at for n, at in self._waited_for.items() if n > self._back}

    def overdue(self, now: Now) -> bool:
        """Whether one is missing."""
        within = ms(self._timings.ping_back_within)
        return any(now.boot_ms - at > within for at in self._waited_for.values())


class Trust:
    """Whether a `run` read from the lane may be started: not while the lease is lapsed, nor before the lane was read up to a
    ping that was begun after it was regained. What is handed back meanwhile costs the request nothing.
    """

    def __init__(self) -> None:
        self._doubted = False
        self._until: int | None = None

    def turn(self, lease: Lease, pings: Pings, now: Now) -> None:
        """Once a step, before anything that happened is taken in."""
        if lease.lapsed(now):
            self._doubted, self._until = True, None
        elif self._doubted and self._until is None:
            self._until = pings.ask_now(now)

    def given(self, pings: Pings) -> bool:
        """Whether the lane's next command may be obeyed by starting something."""
        if self._doubted and self._until is not None and pings.back >= self._until:
            self._doubted = False
        return not self._doubted
