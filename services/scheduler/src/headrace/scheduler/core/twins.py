"""Tells of two workers that go by one name: each would bury the other in turns. Called by core.worker_log.

Invariant: a process that was replaced says nothing more, but for what was on its way; told once for each boot.
"""

from headrace.contracts.reports import Report
from headrace.scheduler.core.counted import Counted
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.state.workers import Grave

_TOO_MANY = 3
"""Reports of a dead boot beside those of the greater one; fewer may have been on their way."""


def tell_of_a_twin(state: PoolState, report: Report, grave: Grave) -> None:
    """A dead boot has reported."""
    live = state.workers.live.get(report.worker)
    if live is None or live.boot < report.boot:
        return
    grave.reports += 1
    if grave.reports == _TOO_MANY and state.caught_up:
        state.count(Counted.WORKERS_OF_ONE_NAME)
        state.notice(
            "two workers have one name: give each its own HEADRACE_NAME",
            warning=True, worker=report.worker, boot=report.boot, other_boot=live.boot,
        )  # fmt: skip
