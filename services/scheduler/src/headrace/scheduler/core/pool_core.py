"""The core of one owned pool: a pure fold, `step(inputs, now) -> Outputs`. Driven by pool_loop.

The order in which the protocol's parts act is here. Invariant: nothing is released and no terminal record sent before the
gate is open; terminal records also need the lease.
"""

from headrace.bus.messages import Message, Place, Received, message_of
from headrace.bus.ports import Confirmation
from headrace.contracts.barriers import Barrier
from headrace.contracts.clock import Now
from headrace.contracts.observations import QueueState
from headrace.contracts.policy import Policy
from headrace.scheduler.core import backend_pacing, pacing, what_to_read
from headrace.scheduler.core.adopting import adopt
from headrace.scheduler.core.answering import Answering
from headrace.scheduler.core.attempt_log import AttemptLog
from headrace.scheduler.core.checkpointing import Checkpoints
from headrace.scheduler.core.commands import Commands
from headrace.scheduler.core.continuing import Continuing
from headrace.scheduler.core.control_log import ControlLog
from headrace.scheduler.core.counted import Counted
from headrace.scheduler.core.dispatching import Dispatching
from headrace.scheduler.core.endings import Ending, Endings
from headrace.scheduler.core.estimating import Estimating
from headrace.scheduler.core.falling_back import FallingBack
from headrace.scheduler.core.finishing import Finishing
from headrace.scheduler.core.forecasting import Forecasting
from headrace.scheduler.core.gate import Gate
from headrace.scheduler.core.gates_now import GatesNow
from headrace.scheduler.core.greater_epoch import GreaterEpoch
from headrace.scheduler.core.headroom import Headroom
from headrace.scheduler.core.holding import Holding
from headrace.scheduler.core.intake import Intake
from headrace.scheduler.core.leaving import Leaving
from headrace.scheduler.core.log_ends import BarrierSent
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.quarantine import Quarantine
from headrace.scheduler.core.rates import Rates
from headrace.scheduler.core.reconciling import Reconciling
from headrace.scheduler.core.releasing import Releasing
from headrace.scheduler.core.rerouting import Rerouting
from headrace.scheduler.core.returning import Returning
from headrace.scheduler.core.routing import Routing
from headrace.scheduler.core.spilling import Spilling
from headrace.scheduler.core.step import Fleet, Inputs, Outputs
from headrace.scheduler.core.suspicion import Suspicion
from headrace.scheduler.core.taking_back import TakingBack
from headrace.scheduler.core.telling import Telling
from headrace.scheduler.core.ticking import Ticking, TickSent
from headrace.scheduler.core.when_to_step import WhenToStep
from headrace.scheduler.core.when_to_trim import WhenToTrim
from headrace.scheduler.core.worker_log import WorkerLog
from headrace.scheduler.decisions.when_to_retry import left_to_wait_ms
from headrace.scheduler.state.lanes import Sent
from headrace.scheduler.state.rerouted import PassedOn, Reroute


class PoolCore:
    """One pool, from its claim on. `state` is for looking at."""

    def __init__(self, state: PoolState) -> None:
        self.state = state
        self._finishing = Finishing(state)
        self._endings = Endings(state, self._finishing)
        suspicion, estimating = Suspicion(state), Estimating(state)
        self._holding, routing = Holding(state, estimating), Routing(state, estimating)
        returning = Returning(state, self._endings, suspicion, estimating)
        self._commands = Commands(state, returning, self._endings)
        self._spilling = Spilling(state, self._endings)
        self._intake = Intake(
            state, self._finishing, self._endings, returning=returning, estimating=estimating, spilling=self._spilling,
        )  # fmt: skip
        self._attempts = AttemptLog(
            state, self._finishing, returning, self._commands, self._endings, suspicion, estimating,
            self._holding, routing,
        )  # fmt: skip
        self._ticking, self._reconciling = Ticking(state), Reconciling(state, returning, self._commands)
        self._workers = WorkerLog(
            state, returning, self._commands, self._endings,
            ticking=self._ticking, reconciling=self._reconciling, holding=self._holding,
        )  # fmt: skip
        self._rates, self._continuing = (rates := Rates(state)), Continuing(state, returning)
        self._telling = Telling(state, rates)
        dispatching = Dispatching(state, self._commands, estimating, self._holding, routing)
        quarantine, self._headroom = Quarantine(state, dispatching), Headroom(state, self._commands)
        self._releasing = Releasing(
            state, self._commands, self._endings, returning=returning, quarantine=quarantine,
            dispatching=dispatching, headroom=self._headroom, holding=self._holding, estimating=estimating,
            routing=routing, taking_back=TakingBack(state, self._commands, self._holding),
        )  # fmt: skip
        self._checkpoints = checkpoints = Checkpoints(state)
        self._leaving = Leaving(state, self._endings, checkpoints)
        self.rerouting = Rerouting(state, self._finishing, returning, checkpoints)
        self._falling_back = FallingBack(state, self.rerouting, estimating, rates)
        self._control = self._control_log(estimating, quarantine)
        self._gate, self._when_to_trim = Gate(state, self._ticking), WhenToTrim(state)
        self._greater_epoch = GreaterEpoch(state)
        self._when_to_step = WhenToStep(state, self._ticking, self._headroom)
        folds = self._attempts, self._control, self._intake, self._workers, self._falling_back
        self._kinds, self._order = [each.read for each in folds], state.setting.taken_in()

    def _control_log(self, estimating: Estimating, quarantine: Quarantine) -> ControlLog:
        """With what answers queries from all others."""
        state = self.state
        gates = GatesNow(
            state, commands=self._commands, headroom=self._headroom, quarantine=quarantine,
            releasing=self._releasing, leaving=self._leaving,
        )  # fmt: skip
        self._forecasting = Forecasting(state, self._rates, estimating)
        answering = Answering(state, self._rates, estimating, gates, self._forecasting)
        return ControlLog(state, self._endings, self._commands, answering, self.rerouting)

    def positions(self) -> dict[Place, int]:
        """What to read, and from where."""
        return what_to_read.positions(self.state, self._falling_back.places())

    def claim(self, now: Now) -> list[Message]:
        """The checkpoint that claims the pool; step only once it is committed."""
        state = self.state
        state.now = state.claimed = now
        for record in state.retrying.values():
            left_ms = left_to_wait_ms(record.due_ms, record.wait_ms, now.wall_ms)
            state.dues[record.id] = now.boot_ms + left_ms
        pacing.owe(state, state.ceilings.left_by)
        backend_pacing.owe(state)
        self._continuing.begin()
        return self._checkpoints.claim()

    def adopt(self, policy: Policy) -> None:
        """Another policy holds from the next step on."""
        adopt(self.state, policy)
        self._headroom.adopt()

    def leave(self) -> None:
        """Give the pool up, whoever follows: the next steps end what is begun, until one says `released`."""
        self._leaving.begin()

    @property
    def queue_states(self) -> dict[str, QueueState]:
        """The last word on each tier."""
        return self._telling.states

    @property
    def fleet(self) -> Fleet:
        """Who serves the pool now."""
        live = self.state.workers.live.values()
        slots = sum(worker.report.limit for worker in live)
        return Fleet(len(live), slots, self.state.held.in_all, self.state.ceilings.pool_is_closed)

    @property
    def at_work(self) -> bool:
        """Whether requests wait or run."""
        return bool(self.state.tracked) or len(self.state.held) > 0

    def step(self, inputs: Inputs, now: Now) -> Outputs:
        """Take in what happened; say what is to be done."""
        state = self.state
        state.now, state.out = now, Outputs()
        self._take_in(inputs)
        self._reconciling.give_up_missing()
        self._gate.turn()
        self._releasing.wake_delayed()
        self._greater_epoch.turn()
        unfinished = not self._greater_epoch.seen and self._act()
        self._keep_up(unfinished=unfinished)
        return state.out

    def _take_in(self, inputs: Inputs) -> None:
        state = self.state
        for confirmation in inputs.confirmations:
            self._confirmed(confirmation)
        if inputs.committed:
            state.out.checkpoint_ms = self._checkpoints.committed()
            state.out.backends = self._holding.figures()
        if inputs.trimmed is not None:
            self._when_to_trim.done(inputs.trimmed)
        if inputs.ends is not None:
            state.ends.answer(inputs.ends)
        by_kind: list[list[Received]] = [[] for _ in self._kinds]
        for received in inputs.records:
            by_kind[self._order[received.topic]].append(received)
        for read, records in zip(self._kinds, by_kind, strict=True):
            for received in records:
                read(received)
        self._spilling.read(inputs.read_again)
        self._continuing.read(inputs.read_again)
        self._rates.completed(state.out.counts.get(Counted.ATTEMPTS_DONE, 0))

    def _confirmed(self, confirmation: Confirmation) -> None:
        token = confirmation.token
        if isinstance(token, Sent):
            self._commands.confirmed(token, confirmation)
        elif isinstance(token, Ending):
            self._endings.confirmed(token, confirmation)
        elif isinstance(token, Reroute | PassedOn):
            self.rerouting.confirmed(token, confirmation)
        elif isinstance(token, TickSent):
            self._ticking.confirmed(confirmation)
        elif isinstance(token, BarrierSent):
            self.state.barriers.confirmed(token, confirmation, self.state.now.boot_ms)

    def _act(self) -> bool:
        """What only an owner past the gate may do; whether there is more of it at once."""
        if not self.state.open:
            return False
        if self.state.moving is not None:
            self._leaving.begin(self.state.moving.to)
        if self._leaving.under_way:
            if self._checkpoints.in_charge:
                self._endings.pump(begin=False)
            return False
        for ceilings in (self.state.ceilings, self.state.backend_ceilings):
            ceilings.turn(self.state.now.boot_ms)
        self._releasing.expire()
        self._falling_back.turn()
        self._control.turn()
        self._when_to_trim.due()
        unfinished = self._releasing.release()
        self._forecasting.turn()
        self._spilling.turn()
        if self._checkpoints.in_charge:
            self._endings.pump()
            self.rerouting.turn()
        return unfinished

    def _keep_up(self, *, unfinished: bool) -> None:
        """What an owner does from its claim on."""
        state = self.state
        self._workers.fence()
        self._ticking.tick()
        self._commands.ping()
        self._telling.tell()
        self._continuing.turn()
        if self._leaving.under_way:
            self._leaving.turn()
        else:
            state.out.checkpoint = self._checkpoints.due()
        self._ask_for_ends()
        state.out.paused = what_to_read.paused(state)
        state.out.busy = self._is_busy()
        state.out.wake_ms = state.now.boot_ms if unfinished else self._when_to_step.wake_ms()

    def _is_busy(self) -> bool:
        """Whether something is under way whose confirmation or answer is looked for soon."""
        busy = self._endings.waiting or self._checkpoints.under_way or self._leaving.under_way
        busy |= self.state.ends.waiting or self.state.barriers.waiting or self._spilling.under_way
        return busy or self._control.under_way or self.rerouting.under_way or self._continuing.under_way

    def _ask_for_ends(self) -> None:
        state = self.state
        state.out.ask_ends = state.ends.ask()
        for due in state.barriers.due(state.now.boot_ms):
            state.send(message_of(due.place, Barrier()), due)
