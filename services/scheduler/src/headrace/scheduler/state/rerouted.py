"""Requests that go to other pools: those on their way, and where those went that are gone. Kept in core.pool_state.

core.rerouting adds, core.checkpointing writes. Invariant: who went is known for a day, the last MOST of them, so that whoever
asks for it, or wants it cancelled, is passed on to where it is; and it isn't taken in here again for as long.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.contracts.control import CancelRequest
from headrace.contracts.values import Origin
from headrace.scheduler.state.on_its_way import OnItsWay
from headrace.scheduler.state.recent import ByMinute

KEPT_MINUTES = 24 * 60
MOST = 200_000
"""Ids: some 45 MB of memory, and 15 MB of `state`, which each owner and each worker's boot reads whole."""


@dataclass(slots=True, eq=False)
class Reroute(OnItsWay):
    """One on its way: to the pool `to`, whose backends know its model as `model`. `said_in`: the number of the first
    checkpoint that says so; before it is committed nothing is written. `doubtful`: it may stand in the other log already.
    `given_up`: it can't be written there, and `said_in` is the first checkpoint that knows nothing of it any more.
    """

    id: str
    origin: Origin
    to: str
    model: str
    said_in: int = 0
    doubtful: bool = False
    given_up: bool = False


@dataclass(slots=True, eq=False)
class PassedOn(OnItsWay):
    """A cancel, which stands at `offset` in `control`, on its way to the pool that its request went to."""

    offset: int
    request: CancelRequest
    to: str


class Rerouted:
    """Where requests went."""

    def __init__(self) -> None:
        self._ids: ByMinute[str] = ByMinute(KEPT_MINUTES)
        self._to: dict[str, str] = {}

    def get(self, request_id: str) -> str | None:
        """The pool that a request went to; None: it isn't known to have gone."""
        return self._to.get(request_id)

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._to

    def add(self, request_id: str, to: str, minute: int) -> tuple[int, int] | None:
        """It has gone; the piece that says so, None where it is known."""
        self._to[request_id] = to
        return self._ids.add(request_id, minute)

    def piece(self, minute: int, number: int) -> dict[str, str] | None:
        """What a checkpoint says under this key; None: it is forgotten."""
        ids = self._ids.pieces.get((minute, number))
        return None if ids is None else {each: self._to[each] for each in ids}

    def restore(self, went: Mapping[str, str], minute: int) -> None:
        """As a checkpoint said."""
        for request_id, to in went.items():
            self.add(request_id, to, minute)

    def forget_before(self, minute: int, *, since: int) -> list[tuple[int, int]]:
        """As ByMinute.forget_before, and the oldest of more than MOST."""
        gone = self._ids.too_old(minute, since=since)
        over = len(self._ids) - sum(len(self._ids.pieces[piece]) for piece in gone) - MOST
        for piece in sorted(self._ids.pieces.keys() - gone) if over > 0 else ():
            if over <= 0:
                break
            gone.append(piece)
            over -= len(self._ids.pieces[piece])
        for piece in gone:
            for request_id in self._ids.pieces[piece]:
                del self._to[request_id]
        self._ids.forget(gone)
        return gone
