"""Which workers take work, and how much. Asked by the core's files that give it to them.

Invariant: what is asked here is decided by how_much_may_a_backend_hold; nothing is kept.
"""

from headrace.scheduler.core import backend_pacing
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.decisions.how_much_may_a_backend_hold import room_of
from headrace.scheduler.state.workers import Worker


def is_ready(state: PoolState, worker: Worker) -> bool:
    """Whether a worker takes work at all: it is healthy, isn't drained, and has answered this owner."""
    return worker.report.healthy and not worker.report.draining and _has_answered(state, worker)


def room_at(state: PoolState, worker: Worker, *, held: int | None = None) -> int:
    """The attempts that a worker may be given now; with `held`, if it held only so many. None, while its backend has been
    given what it takes in a minute, or tries a suspect of a tier that was taken out of the policy.
    """
    if backend_pacing.is_closed(state, worker) or any(told.trial for told in state.held.besides(worker.boot)):
        return 0
    report, limits = worker.report, state.limits.get(worker.boot)
    return room_of(
        limit=report.limit,
        learned=None if limits is None else limits.limit,
        held=state.held.count_of(worker.boot) if held is None else held,
        healthy=report.healthy,
        draining=report.draining,
        answered=_has_answered(state, worker),
    )


def _has_answered(state: PoolState, worker: Worker) -> bool:
    """And has refused nothing since."""
    return worker.report.epoch >= state.epoch and not worker.refuses
