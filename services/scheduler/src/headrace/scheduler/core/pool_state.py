"""All that the owner of one pool knows, in one place. Made by core.restoring, changed by the core's files alone.

Invariant: but for what is in flight it is a fold over `requests`, `attempts`, `control` and `workers`.
"""

from dataclasses import dataclass, field

from msgspec import structs

from headrace.bus.messages import Message, Place
from headrace.contracts.checkpoints import Retrying
from headrace.contracts.clock import Now
from headrace.contracts.ids import AttemptId
from headrace.contracts.kept_text import KeptText
from headrace.contracts.values import Origin
from headrace.scheduler.core.counted import Counted
from headrace.scheduler.core.log_ends import BarrierDesk, EndsDesk
from headrace.scheduler.core.setting import Setting
from headrace.scheduler.core.step import Notice, Outputs, Send
from headrace.scheduler.decisions.pick_next import tier_shares
from headrace.scheduler.decisions.when_expired import expires_ms
from headrace.scheduler.state.accounts import Accounts
from headrace.scheduler.state.answer_lengths import AnswerLengths
from headrace.scheduler.state.backend_ceilings import BackendCeilings
from headrace.scheduler.state.backend_limits import BackendLimits
from headrace.scheduler.state.bulk_cancels import BulkCancels
from headrace.scheduler.state.ceilings import Ceilings
from headrace.scheduler.state.fair_queue import FairQueue
from headrace.scheduler.state.held import HeldAttempt, HeldAttempts
from headrace.scheduler.state.kept_texts import KeptTexts
from headrace.scheduler.state.lanes import Lanes
from headrace.scheduler.state.partitions import RequestPartition, RequestPartitions
from headrace.scheduler.state.pending import Cancels, PendingDrain, PendingMove
from headrace.scheduler.state.priority_orders import PriorityOrders
from headrace.scheduler.state.recent import ByMinute
from headrace.scheduler.state.requests import Requests
from headrace.scheduler.state.rerouted import PassedOn, Reroute, Rerouted
from headrace.scheduler.state.retry_budgets import RetryBudgets
from headrace.scheduler.state.served import Served
from headrace.scheduler.state.speeds import Speeds
from headrace.scheduler.state.spilled import Spilled
from headrace.scheduler.state.standing_orders import BulkMoves
from headrace.scheduler.state.suspects import Suspects
from headrace.scheduler.state.timed import Timed
from headrace.scheduler.state.tracked import Phase, Tracked
from headrace.scheduler.state.wait_errors import WaitErrors
from headrace.scheduler.state.workers import Workers

MINUTE_MS = 60_000


def _expiry_of(request: Tracked) -> int | None:
    if request.phase in (Phase.ENDING, Phase.FINISHED):
        return None
    waiting = request.phase is not Phase.HELD
    return expires_ms(request.start_by_ms, request.record.finish_by_ms, waiting=waiting)


def _age_of(request: Tracked) -> int | None:
    return request.record.accepted_ms if request.phase in (Phase.WAITING, Phase.DELAYED) else None


def _due_of(request: Tracked) -> int | None:
    return request.due_boot_ms if request.phase is Phase.DELAYED else None


@dataclass(slots=True)
class PoolState:
    """The owner's memory. `out` collects what the present step is to do; `now` is the present step's instant."""

    setting: Setting
    epoch: int
    accounts: Accounts
    queue: FairQueue
    partitions: RequestPartitions
    lengths: AnswerLengths
    attempts_read: dict[int, int]
    ceilings: Ceilings
    backend_ceilings: BackendCeilings = field(default_factory=BackendCeilings)
    control_read: int = 0
    leaders: dict[Place, int] = field(default_factory=dict)
    """Leader epochs of the newest records read of `attempts` and `control`."""
    workers_read: int = 0
    sequence: int = 0
    now: Now = Now(0, 0)  # noqa: RUF009 frozen
    claimed: Now = Now(0, 0)  # noqa: RUF009 frozen
    """When this owner came."""
    lease_ms: int = -(10**12)
    open: bool = False
    greater_epoch: int | None = None
    spilled: Spilled = field(default_factory=Spilled)
    unread: dict[str, Tracked] = field(default_factory=dict)
    """Those in memory whose payload is in the log alone: whoever wants them to run must have it read again."""
    held: HeldAttempts = field(default_factory=HeldAttempts)
    missing: dict[str, HeldAttempt] = field(default_factory=dict)
    workers: Workers = field(default_factory=Workers)
    limits: dict[str, BackendLimits] = field(default_factory=dict)
    """By boot, of those that have answered this owner: what was learned of their backends."""
    lanes: Lanes = field(default_factory=Lanes)
    ends: EndsDesk = field(default_factory=EndsDesk)
    barriers: BarrierDesk = field(default_factory=BarrierDesk)
    expiries: Timed = field(init=False)
    delays: Timed = field(init=False)
    ages: dict[str, Timed] = field(init=False)
    overdue: set[str] = field(default_factory=set)
    """Ids of held requests whose deadline has passed: their workers are told until they end."""
    recent: ByMinute[str] = field(default_factory=ByMinute)
    settled: ByMinute[AttemptId] = field(default_factory=ByMinute)
    retrying: dict[str, Retrying] = field(default_factory=dict)
    texts: KeptTexts = field(default_factory=KeptTexts)
    """From which of those go on that were stopped."""
    dues: dict[str, int] = field(default_factory=dict)
    """When those may run again, ms since boot: a wall clock that jumps makes no retry early or late."""
    suspects: Suspects = field(default_factory=Suspects)
    retry_budgets: RetryBudgets = field(default_factory=RetryBudgets)
    served: Served = field(default_factory=Served)
    speeds: Speeds = field(default_factory=Speeds)
    waits: WaitErrors = field(default_factory=WaitErrors)
    cancels: Cancels = field(default_factory=Cancels)
    bulk_cancels: BulkCancels = field(default_factory=BulkCancels)
    arrived: list[str] = field(default_factory=list)
    """Ids of those that have come to wait in this step, where the policy knows other pools for them."""
    reroutes: dict[str, Reroute] = field(default_factory=dict)
    """By id, those on their way to other pools."""
    rerouted: Rerouted = field(default_factory=Rerouted)
    passed_on: dict[int, PassedOn] = field(default_factory=dict)
    """By offset in `control`, cancels on their way after them."""
    bulk_moves: BulkMoves = field(default_factory=BulkMoves)
    priority_orders: PriorityOrders = field(default_factory=PriorityOrders)
    drains: dict[str, PendingDrain] = field(default_factory=dict)
    """By the worker's name."""
    moving: PendingMove | None = None
    checkpointed: dict[Place, int] = field(default_factory=dict)
    """Where the next owner would begin in each log, by the last committed checkpoint."""
    delivered: dict[Place, int] = field(default_factory=dict)
    """How far result-delivery has committed each log, as it last said."""
    told: dict[AttemptId, int] = field(default_factory=dict)
    unburied: set[Origin] = field(default_factory=set)
    """Records of `attempts`, `control` and `workers` on their way to the dead letters: no checkpoint passes them."""
    unserved: dict[Place, RequestPartition] = field(default_factory=dict)
    """Request partitions that a checkpoint knows and the policy doesn't: a tier or a partition was taken out."""
    unserved_tiers: set[str] = field(default_factory=set)
    """Likewise, tiers. What ran there when the last owner went may end now."""
    caught_up: bool = False
    """Whether `workers` was read to the end noted after the claim: what stood before is history, told by others."""
    dirty: set[str] = field(default_factory=set)
    """Keys of records to be written with the next checkpoint: of those that have a key for each thing that they are about."""
    out: Outputs = field(default_factory=Outputs)
    tracked: Requests = field(init=False)

    def __post_init__(self) -> None:
        self.tracked = Requests(self.spilled)
        self.tracked.came_back = self._came_back
        here = self.tracked.here
        self.expiries, self.delays = Timed(_expiry_of, here), Timed(_due_of, here)
        self.ages = {tier: Timed(_age_of, here) for tier in self.setting.policy.tiers}

    @classmethod
    def empty(cls, setting: Setting, epoch: int) -> "PoolState":
        """A pool of which nothing is known yet."""
        weights = {name: tenant.weight for name, tenant in setting.policy.tenants.items()}
        accounts = Accounts(tier_shares(setting.policy.tiers), weights)
        partitions, spilled = setting.policy.topics.tenant_partitions, Spilled()
        queue, ceilings = FairQueue(accounts, spilled), Ceilings(*setting.ceilings)
        ceilings.paced, ceilings.goes_on = queue.frozen.pace, queue.frozen.go_on
        return cls(
            setting=setting,
            epoch=epoch,
            accounts=accounts,
            queue=queue,
            ceilings=ceilings,
            spilled=spilled,
            partitions=RequestPartitions(setting.request_topics(), partitions),
            lengths=AnswerLengths(setting.pool_policy.default_max_tokens),
            attempts_read=dict.fromkeys(range(partitions), 0),
        )

    def text_of(self, request_id: str) -> KeptText | None:
        """What is told of the text that its next attempt goes on from; None: it begins anew."""
        known = self.retrying.get(request_id)
        return None if known is None or self.texts.of(request_id) is None else known.text

    def said(self, request_id: str) -> int:
        """How many tokens of its answer are there already."""
        text = self.text_of(request_id)
        return 0 if text is None else text.tokens

    def forget_text(self, request_id: str) -> None:
        """Its next attempt begins anew."""
        known = self.retrying.get(request_id)
        if self.texts.drop(request_id) and known is not None:
            self.retrying[request_id] = structs.replace(known, text=None, text_at=None)
            self.dirty.add(f"retrying/{request_id}")

    def settles(self, attempt: AttemptId) -> bool:
        """Whether this attempt is to be booked now: once, whoever owns the pool when its outcome is read again."""
        piece = self.settled.add(attempt, self.minute)
        if piece is not None:
            self.dirty.add(f"settled/{piece[0]}/{piece[1]}")
        return piece is not None

    def settle(
        self, tier: str, tenant: str, cost: int, *, charged: int | None = None, flow: int | None = None
    ) -> None:
        """Book what an attempt really spent. Call only where `settles` said so.

        `charged`: its request has ended, and was charged this. Queues are counted in charges, so their rates are too: where
        answers are shorter than was thought, what waits is too.
        """
        self.accounts.settle(tier, tenant, cost, flow)
        self.served.settled(tier, tenant, cost if charged is None else charged, self.now.boot_ms)

    @property
    def minute(self) -> int:
        """The present minute of Unix time, counted from the claim on: a clock that jumps makes nothing old at once."""
        return (self.claimed.wall_ms + self.now.boot_ms - self.claimed.boot_ms) // MINUTE_MS

    def next_attempt(self) -> AttemptId:
        """An attempt id of this owner."""
        self.sequence += 1
        return AttemptId(self.epoch, self.sequence)

    def send(self, message: Message, token: object = None, waited_ms: int | None = None) -> None:
        """Let this step send a message."""
        self.out.sends.append(Send(token, message, waited_ms))

    def notice(self, event: str, *, warning: bool = False, **fields: str | int | None) -> None:
        """Tell an operator."""
        self.out.notices.append(Notice(event, {"pool": self.setting.pool, **fields}, warning))

    def count(self, what: Counted, by: int = 1) -> None:
        """Count something for the metrics."""
        self.out.counts[what] = self.out.counts.get(what, 0) + by

    def is_finished(self, request_id: str, origin: Origin) -> bool:
        """Whether a request has reached its end, as far as is known."""
        return request_id in self.recent or self.partitions.is_finished(origin)

    def in_memory_again(self, tracked: Tracked) -> None:
        """It has waited among the spilled, and waits in memory now."""
        self.queue.enter(tracked)
        self.expiries.put(tracked)
        self.ages[tracked.record.tier].put(tracked)

    def _came_back(self, tracked: Tracked) -> None:
        self.unread[tracked.id] = tracked
        self.in_memory_again(tracked)
