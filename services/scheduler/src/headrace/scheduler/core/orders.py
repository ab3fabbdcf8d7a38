"""Obeys an operator: drains workers, freezes tenants and tiers, gives the pool away. Called by core.control_log.

Invariant: an order is kept, and the checkpointed position stays before it, until it is obeyed or means nothing any more.
"""

from datetime import timedelta
from typing import assert_never

from headrace.bus.messages import Received
from headrace.contracts.control import DrainWorker, Freeze, MovePool, Thaw, UndrainWorker
from headrace.contracts.durations import ms
from headrace.scheduler.core.commands import Commands
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.state.frozen import MOST_HOLDS, Hold
from headrace.scheduler.state.pending import PendingDrain, PendingMove

_MOVE_WITHIN = timedelta(seconds=60)
"""Whoever asked for a move looks for it now; one that nobody obeyed in time surprises nobody later."""


Order = DrainWorker | UndrainWorker | MovePool | Freeze | Thaw


class Orders:
    """What an operator asked for."""

    def __init__(self, state: PoolState, commands: Commands) -> None:
        self._state, self._commands = state, commands

    def take(self, received: Received, order: Order) -> None:
        """An order that was just read."""
        match order:
            case DrainWorker() | UndrainWorker():
                self.drain(received, order)
            case MovePool():
                self.move(received, order)
            case Freeze() | Thaw():
                self.freeze(order)
            case _:
                assert_never(order)

    def drain(self, received: Received, order: DrainWorker | UndrainWorker) -> None:
        """Keep it; the newest word on a worker counts."""
        draining = isinstance(order, DrainWorker)
        self._state.drains[order.worker] = PendingDrain(received.offset, received.timestamp_ms, draining)

    def move(self, received: Received, order: MovePool) -> None:
        """Keep it, unless it can't be obeyed; the newest word counts, so one to where the pool is ends an older one."""
        if order.to == self._state.setting.owner:
            self._state.moving = None
        refusal = self._refusal(received, order.to)
        if refusal is None:
            self._state.moving = PendingMove(received.offset, order.to)
        else:
            self._state.notice("the pool isn't moved", warning=True, to=order.to, reason=refusal)

    def freeze(self, order: Freeze | Thaw) -> None:
        """Obey it at once: the checkpoint that passes it has what is held back."""
        state, hold = self._state, Hold(order.tier, order.tenant)
        holds = state.queue.frozen.holds
        if isinstance(order, Thaw):
            state.queue.frozen.thaw(hold)
            state.notice("an operator thaws", tier=order.tier, tenant=order.tenant)
        elif len(holds) >= MOST_HOLDS:
            state.notice("nothing more is frozen: too much is already", warning=True, holds=len(holds))
        else:
            state.queue.frozen.freeze(hold)
            state.notice("an operator freezes", tier=order.tier, tenant=order.tenant)
        state.dirty.add("frozen")

    def sweep(self) -> None:
        """Tell the workers. Call only past the gate: only then is it known who is there."""
        for name in list(self._state.drains):
            self._tell(name)

    def _refusal(self, received: Received, to: str) -> str | None:
        setting = self._state.setting
        if to == setting.owner:
            return "it is there"
        if setting.replicas and to not in setting.replicas:
            return "HEADRACE_SCHEDULER_REPLICAS doesn't name that replica"
        if self._state.now.wall_ms - received.timestamp_ms > ms(_MOVE_WITHIN):
            return "it was asked for too long ago"
        return None

    def _tell(self, name: str) -> None:
        state, order = self._state, self._state.drains[name]
        worker = state.workers.live.get(name)
        if worker is None:
            del state.drains[name]
            state.notice("no such worker is there", warning=True, worker=name)
        elif worker.report.draining is order.draining or _born_ms(worker.boot) > order.asked_ms:
            del state.drains[name]
        elif state.now.boot_ms - order.told_ms >= ms(state.setting.timings.repeat):
            order.told_ms = state.now.boot_ms
            self._commands.drain(worker.report.lane, worker.boot, draining=order.draining)


def _born_ms(boot: str) -> int:
    """When a boot began, Unix ms: its id is a UUIDv7. 0 for another kind of id."""
    try:
        return int(boot[:12], 16)
    except ValueError:
        return 0
