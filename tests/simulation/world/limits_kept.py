"""Is no more held than may be? Looked at after each step of an owner, and of each worker (property 8 of the scheduling).

Called by world.schedulers and world.workers. Invariant: the peak to come is counted out step by step here, and not by the
product's forecast.
"""

from collections.abc import Iterator, Sequence

from headrace.inference_worker.protocol.boot import Boot
from headrace.inference_worker.protocol.holdings import Stage
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.decisions.how_many_tokens_fit import Load


def released_too_much(state: PoolState) -> Iterator[str]:
    """What this step gave to workers that had no room for it."""
    for worker in state.workers.live.values():
        held, limits = state.held.of_boot(worker.boot), state.limits.get(worker.boot)
        if not any(each.offset is None and each.since_ms == state.now.boot_ms for each in held):
            continue
        most = worker.report.limit if limits is None else min(worker.report.limit, limits.limit)
        if len(held) > most:
            yield f"limits: {worker.name} was given {len(held)} attempts and may hold {most}"
        if limits is None or limits.kv_tokens is None or any(each.trial for each in held):
            continue
        loads = list(limits.loads._loads.values())
        if len(loads) != len(held):
            yield f"limits: {worker.name} holds {len(held)} attempts, and {len(loads)} are known to its cache"
        if len(held) > 1 and 100 * peak_of(loads) > limits.theta.percent * limits.kv_tokens:
            yield f"limits: {worker.name} will need {peak_of(loads)} tokens of its cache's {limits.kv_tokens}"


def peak_of(loads: Sequence[Load]) -> int:
    """Everybody gets a token a step, and gives all back when it has what it was to get."""
    ends = sorted({load.left for load in loads})
    return max((sum(one.so_far + end for one in loads if one.left >= end) for end in ends), default=0)


def holds_too_much(name: str, boot: Boot, limit: int) -> Iterator[str]:
    """What a worker was sent beyond its own limit, whoever sent it."""
    inside = [each for stage in (Stage.WAITING, Stage.RUNNING) for each in boot.holdings.at(stage)]
    wanted = [each for each in inside if each.stop is None]
    if len(wanted) > limit:
        yield f"limits: {name} holds {len(wanted)} attempts and may hold {limit}"
