"""What an owner reads, and when it steps by itself."""

from headrace.contracts.durations import ms
from headrace.scheduler.core import what_to_read
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.decisions.what_is_lent import LONGEST
from tests.support.scheduler.case import Case

SOON_MS = 3


def test_no_request_is_read_before_the_gate_is_open() -> None:
    state = PoolState.empty(Case().owner.setting, 1)
    assert what_to_read.paused(state) == set(state.partitions.by_place)
    state.open = True
    assert what_to_read.paused(state) == set()


def test_an_owner_steps_when_a_tier_with_headroom_has_waited_too_long() -> None:
    case = Case()
    case.run(1_000)
    core = case.owner.core
    assert core is not None
    now_ms = core.state.now.boot_ms
    assert core._when_to_step.wake_ms() > now_ms + SOON_MS
    core._headroom._since["interactive"] = now_ms + SOON_MS - ms(LONGEST)
    assert core._when_to_step.wake_ms() == now_ms + SOON_MS
