"""headrace as a contender: the product's own core of an owned pool, whole, on logs that lose nothing and take no time.

What the world tells becomes records as callers and workers write them; the commands that the core sends become orders.
Invariant: nothing is decided here.
"""

from collections import defaultdict, deque
from collections.abc import Sequence, Set
from random import Random

from headrace.bus.messages import Place, Received
from headrace.bus.ports import Confirmation, RunRead
from headrace.contracts.codec import decode
from headrace.contracts.commands import Cancel as CancelCommand
from headrace.contracts.commands import CancelReason
from headrace.contracts.policy import Policy
from headrace.contracts.topics import TopicKind, TopicNames
from headrace.scheduler.core.endings import Ending
from headrace.scheduler.core.pool_core import PoolCore
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.setting import Setting
from headrace.scheduler.core.step import Inputs, Outputs, Send
from headrace.scheduler.core.ticking import TickSent
from headrace.scheduler.decisions.estimate_cost import spent_cost
from headrace.scheduler.decisions.what_to_spill import SpillBounds
from headrace.scheduler.decisions.when_to_pause import Window
from headrace.scheduler.simulate.backend import Backend
from headrace.scheduler.simulate.contender import Cancel, Contender, Drop, Left, Order, PutBack, Start
from headrace.scheduler.simulate.jobs import Fate, Job
from headrace.scheduler.simulate.promise import Promise
from headrace.scheduler.simulate.records import Scribe, usage_of
from headrace.scheduler.state.lanes import Sent
from headrace.scheduler.timings import Timings

_REPORT_MS, _SOON_MS = 500, 5
_MOST_STEPS_TO_OPEN = 50
_AS_BY_DEFAULT = SpillBounds()


class Owner(Contender):
    """One owner of one pool."""

    def __init__(
        self,
        policy: Policy,
        pool: str,
        backends: Sequence[Backend],
        seed: int,
        spill: SpillBounds | None = _AS_BY_DEFAULT,
    ) -> None:
        dice = Random(seed)  # noqa: S311 - a run that can be had again, not a secret
        self._setting = Setting(
            pool=pool,
            owner="simulated",
            policy=policy,
            names=TopicNames("simulated."),
            timings=Timings(),
            window=Window(),
            spill=spill,
            random=dice.random,
        )
        self._scribe = Scribe(self._setting, backends)
        self._core = PoolCore(PoolState.empty(self._setting, epoch=1))
        slots = sum(backend.model.slots for backend in backends)
        self._promise = Promise(policy, slots)
        self._jobs: dict[str, Job] = {}
        self._unread: defaultdict[Place, deque[Received]] = defaultdict(deque)
        self._log: dict[Place, dict[int, Received]] = defaultdict(dict)
        """What stands in `requests`, without what has ended."""
        self._origins: dict[Job, tuple[Place, int]] = {}
        self._ticks: list[Received] = []
        self._aside: set[str] = set()
        self._confirmations: list[Confirmation] = []
        self._ends: dict[Place, int] | None = None
        self._outputs = Outputs()
        self._committed, self._report_ms, self._now_ms = True, 0, 0
        self._core.claim(self._scribe.now(0))
        self._open()

    def turn(self, now_ms: int, arrived: Sequence[Job], left: Sequence[Left]) -> Sequence[Order]:
        """One step of the core."""
        self._now_ms = now_ms
        records = [self._ended(each) for each in left]
        for job in arrived:
            self._accept(job)
        for place, unread in self._unread.items():
            if place not in self._outputs.paused:
                records += unread
                unread.clear()
        if now_ms >= self._report_ms:
            self._report_ms = now_ms + _REPORT_MS
            records += self._scribe.reports(now_ms)
        return self._step(records)

    def _accept(self, job: Job) -> Received:
        received = self._scribe.request(job)
        self._jobs[self._scribe.ids[job]] = job
        self._unread[received.place].append(received)
        self._log[received.place][received.offset] = received
        self._origins[job] = received.place, received.offset
        return received

    def wake_ms(self) -> int | None:
        """When the core wants to be stepped, and when workers report."""
        wake_ms = self._outputs.wake_ms - self._scribe.now(0).boot_ms
        if self._outputs.busy or self._ticks or self._committed:
            wake_ms = min(wake_ms, self._now_ms + _SOON_MS)
        return max(self._now_ms + 1, min(wake_ms, self._report_ms))

    def aside(self) -> Set[str]:
        """As the queue says."""
        found, self._aside = self._aside, set(self._core.state.queue.frozen.paced)
        return found

    def promised_gap(self) -> int | None:
        """As the bound says, with the greatest charge and the greatest error of a charge that were seen."""
        return self._promise.gap

    def _open(self) -> None:
        """Until the gate is open."""
        records = self._scribe.reports(0)
        for _ in range(_MOST_STEPS_TO_OPEN):
            if self._core.state.open:
                return
            self._step(records)
            records = []
        raise RuntimeError("the simulated owner's gate doesn't open")

    def _step(self, records: list[Received]) -> list[Order]:
        ticks, self._ticks = self._ticks, []
        confirmations, self._confirmations = self._confirmations, []
        inputs = Inputs(
            [*records, *ticks], confirmations, self._ends, self._committed, read_again=self._read_again()
        )
        self._outputs = outputs = self._core.step(inputs, self._scribe.now(self._now_ms))
        if outputs.stop is not None:
            raise RuntimeError(outputs.stop)
        self._aside |= self._core.state.queue.frozen.paced
        self._committed = bool(outputs.checkpoint)
        self._ends = {place: self._scribe.end_of(place) for place in outputs.ask_ends} or None
        found = [self._order(send) for send in outputs.sends]
        return [order for order in found if order is not None]

    def _read_again(self) -> list[RunRead]:
        """What was to be read again has come by the next step."""
        return [
            RunRead(run, [log[offset] for offset in range(run.first, run.stop) if offset in log])
            for run in self._outputs.read_again
            for log in (self._log[run.place],)
        ]

    def _order(self, send: Send) -> Order | None:
        """What a message means to the world; it is in its log at once."""
        place = send.message.place
        if isinstance(send.token, TickSent):
            self._ticks.append(self._scribe.received(send.message))
            return None
        self._confirmations.append(Confirmation(send.token, place, self._scribe.next_offset(place)))
        if isinstance(send.token, Ending):
            ends = place.topic == self._setting.place(TopicKind.RESULTS).topic
            return Drop(self._forget(send.token.id)) if ends and send.token.id is not None else None
        return self._command(send, send.token) if isinstance(send.token, Sent) else None

    def _command(self, send: Send, sent: Sent) -> Order | None:
        if sent.held is not None:
            self._promise.charged(sent.held.tenant, sent.held.charge)
            job = self._jobs[sent.held.id]
            return Start(job, self._scribe.began(job, sent.held), sent.held.said)
        command = decode(TopicKind.WORK, dict(send.message.headers)["headrace"])
        if isinstance(command, CancelCommand) and command.id in self._jobs:
            job = self._jobs[command.id]
            return PutBack(job) if command.reason is CancelReason.PREEMPTED else Cancel(job)
        return None

    def _ended(self, left: Left) -> Received:
        held = self._core.state.held.of(self._scribe.ids[left.job])
        if held is not None:
            spent = spent_cost(usage_of(left.job, left.tokens), self._setting.pool_policy.cost)
            self._promise.settled(held.tenant, held.charge, spent)
        record = self._scribe.attempt(left, self._now_ms)
        if left.job.fate is not Fate.UNDER_WAY:
            self._forget(self._scribe.ids.pop(left.job))
        return record

    def _forget(self, request_id: str) -> Job:
        job = self._jobs.pop(request_id)
        place, offset = self._origins.pop(job)
        del self._log[place][offset]
        return job
