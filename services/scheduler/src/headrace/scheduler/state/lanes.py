"""Commands on their way to each lane: which are in the log, where, and which nobody confirmed. Used by the core.

Invariant: same producer, same partition: once a later command is acknowledged, an earlier unknown one is before it or lost.
"""

from collections import defaultdict, deque
from dataclasses import dataclass, field

from headrace.scheduler.state.held import HeldAttempt


@dataclass(slots=True, eq=False)
class Sent:
    """One command on a lane. `held`: the attempt whose `run` it is. Times are ms since boot."""

    number: int
    lane: int
    sent_ms: int
    held: HeldAttempt | None = None
    unknown: bool = False


@dataclass(slots=True)
class _Lane:
    open: deque[Sent] = field(default_factory=deque)
    acknowledged: deque[tuple[int, int]] = field(default_factory=deque)
    pinged_ms: int = -(10**12)


class Lanes:
    """All lanes of a pool."""

    def __init__(self) -> None:
        self._lanes: defaultdict[int, _Lane] = defaultdict(_Lane)
        self._numbers = 0

    def sent(self, lane: int, boot_ms: int, held: HeldAttempt | None = None) -> Sent:
        """A command goes out; what it returns comes back with its confirmation."""
        self._numbers += 1
        command = Sent(self._numbers, lane, boot_ms, held)
        self._lanes[lane].open.append(command)
        return command

    def acknowledged(self, command: Sent, offset: int, boot_ms: int) -> None:
        """It stands at this offset; so whatever was sent before it stands before it, or nowhere."""
        lane = self._lanes[command.lane]
        while lane.open and lane.open[0].number <= command.number:
            earlier = lane.open.popleft()
            if earlier.held is not None and earlier.held.offset is None:
                earlier.held.offset = offset
        lane.acknowledged.append((offset, boot_ms))

    def refused(self, command: Sent) -> None:
        """It certainly is nowhere."""
        lane = self._lanes[command.lane]
        if command in lane.open:
            lane.open.remove(command)

    def to_ping(self, boot_ms: int, after_ms: int) -> list[int]:
        """Lanes whose last command nobody confirmed within `after_ms`: a later one, acknowledged, tells its fate."""
        late = []
        for number, lane in self._lanes.items():
            if lane.open and boot_ms - max(lane.open[-1].sent_ms, lane.pinged_ms) >= after_ms:
                lane.pinged_ms = boot_ms
                late.append(number)
        return late

    def unread_since(self, lane: int, position: int) -> int | None:
        """When the oldest command that this position hasn't passed was acknowledged (ms since boot); None: all passed."""
        return next((at for offset, at in self._lanes[lane].acknowledged if offset >= position), None)

    def forget_read(self, lane: int, position: int) -> None:
        """Every boot on this lane has read up to here."""
        acknowledged = self._lanes[lane].acknowledged
        while acknowledged and acknowledged[0][0] < position:
            acknowledged.popleft()
