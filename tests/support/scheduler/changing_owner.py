"""headrace as a contender whose pool changes hands, or gets another policy, while it runs.

Used by the pictures of docs/scheduling.md and their tests. Invariant: a successor knows the checkpoints, the logs and the
workers' reports, and nothing else of its predecessor; nothing is decided here.
"""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.bus.messages import Message, Place, Received
from headrace.bus.ports import Confirmation
from headrace.contracts.policy import Policy
from headrace.scheduler.core.log_ends import BarrierSent
from headrace.scheduler.core.pool_core import PoolCore
from headrace.scheduler.core.restoring import read_state, restore
from headrace.scheduler.core.step import Outputs, Send
from headrace.scheduler.simulate.backend import Backend
from headrace.scheduler.simulate.contender import Left, Order
from headrace.scheduler.simulate.jobs import Job
from headrace.scheduler.simulate.owner import Owner


@dataclass(frozen=True, slots=True)
class Death:
    """The owner is killed; so long nobody owns the pool. A standby takes over after 3 s of silence and more."""

    silent_ms: int = 5_000


Change = Death | Policy


class ChangingOwner(Owner):
    """`changes`: what happens at which instant, ms."""

    def __init__(
        self, policy: Policy, pool: str, backends: Sequence[Backend], seed: int, changes: Mapping[int, Change]
    ) -> None:
        self._checkpoints: dict[bytes | None, Message] = {}
        self._under_way: list[Message] = []
        self._logs: defaultdict[Place, list[Received]] = defaultdict(list)
        """`requests`, `attempts` and `control`, whole."""
        super().__init__(policy, pool, backends, seed)
        self._changes = deque(sorted(changes.items()))
        self._silent_until_ms: int | None = None

    def turn(self, now_ms: int, arrived: Sequence[Job], left: Sequence[Left]) -> Sequence[Order]:
        """As Owner.turn, by whoever owns the pool."""
        while self._changes and now_ms >= self._changes[0][0]:
            self._change(now_ms, self._changes.popleft()[1])
        if self._silent_until_ms is None:
            return super().turn(now_ms, arrived, left)
        self._now_ms = now_ms
        for each in left:
            self._ended(each)
        for job in arrived:
            self._accept(job)
        if now_ms < self._silent_until_ms:
            return ()
        self._silent_until_ms = None
        return self._step(self._take_over(now_ms))

    def wake_ms(self) -> int | None:
        """As Owner.wake_ms."""
        woken = super().wake_ms() if self._silent_until_ms is None else self._silent_until_ms
        due = [woken] if woken is not None else []
        return min([*due, *(at_ms for at_ms, _ in self._changes)], default=None)

    def _change(self, now_ms: int, change: Change) -> None:
        if isinstance(change, Death):
            self._silent_until_ms = now_ms + change.silent_ms
            self._under_way = []  # what wasn't committed is lost
        else:
            self._setting = replace(self._setting, policy=change)
            self._core.adopt(change)

    def _take_over(self, now_ms: int) -> list[Received]:
        """A successor's core in place of the last one; what it reads at first of `attempts` and `control`."""
        setting = self._setting
        written = [self._scribe.received(message) for message in self._checkpoints.values()]
        self._core = PoolCore(restore(setting, read_state(written)))
        self._under_way = self._core.claim(self._scribe.now(now_ms))
        self._committed, self._ends, self._confirmations, self._ticks = True, None, [], []
        self._outputs = Outputs(paused=set(self._core.state.partitions.by_place))
        self._scribe.epoch = self._core.state.epoch
        self._report_ms = now_ms
        positions = self._core.positions()
        unread = {
            place: [each for each in log if each.offset >= positions[place]]
            for place, log in self._logs.items()
        }
        requests = self._core.state.partitions.by_place
        self._unread.clear()
        self._unread.update({place: deque(found) for place, found in unread.items() if place in requests})
        return [each for place, found in unread.items() if place not in requests for each in found]

    def _accept(self, job: Job) -> Received:
        received = super()._accept(job)
        self._logs[received.place].append(received)
        return received

    def _ended(self, left: Left) -> Received:
        received = super()._ended(left)
        self._logs[received.place].append(received)
        return received

    def _order(self, send: Send) -> Order | None:
        """A barrier is a record like any other: who comes reads up to it."""
        if not isinstance(send.token, BarrierSent):
            return super()._order(send)
        barrier = self._scribe.received(send.message)
        self._logs[barrier.place].append(barrier)
        self._ticks.append(barrier)
        self._confirmations.append(Confirmation(send.token, barrier.place, barrier.offset))
        return None

    def _step(self, records: list[Received]) -> list[Order]:
        if self._committed:
            self._checkpoints |= {message.key: message for message in self._under_way}
            self._under_way = []
        own, self._ticks = self._ticks, []  # it stands before what workers write in this turn
        orders = super()._step([*own, *records])
        self._under_way += self._outputs.checkpoint
        return orders
