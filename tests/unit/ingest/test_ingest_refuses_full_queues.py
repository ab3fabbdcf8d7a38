"""Who is refused because a queue is full: with which limit, how far over, and when to come back; and who never is."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.bus.memory import MemoryBus
from headrace.bus.messages import Place, Received
from headrace.contracts.codec import encode
from headrace.contracts.observations import QueueState, Standby, TenantQueue
from headrace.ingest.adapters.queue_states import FRESH, QueueStates
from headrace.ingest.decisions.may_queue import may_queue
from headrace.ingest.refusal import Refusal, as_openai, as_problem
from headrace.runtime.clock import ManualClock

WALL = 1_700_000_000_000
AMOUNTS = st.integers(0, 10**9)
DICE = st.floats(0, 1, exclude_max=True)


def queue(
    *, tenant: str = "atlas", backlog: int, may_wait: int, fair_share: int | None = None, **more: Any
) -> Any:
    fields = {"depth": 10, "served_milli": 1_000_000, **more}
    fair = may_wait if fair_share is None else fair_share
    return TenantQueue(tenant=tenant, backlog=backlog, may_wait=may_wait, fair_share=fair, **fields)


def told(*tenants: TenantQueue, **more: Any) -> QueueState:
    fields = {"pool": "main", "tier": "standard", "epoch": 3, "as_of_ms": WALL, "depth": 10, **more}
    return QueueState(tenants=tenants, **fields)


def refused(state: QueueState, *, waits: bool = False, dice: float = 0.5, tenant: str = "atlas") -> Refusal:
    with pytest.raises(Refusal) as error:
        may_queue(state, tenant, waits=waits, random=lambda: dice)
    return error.value


def admitted(state: QueueState | None, tenant: str = "atlas") -> None:
    may_queue(state, tenant, waits=False, random=lambda: 0.5)


def test_a_full_queue_of_a_tenant_is_a_429_that_says_which_limit_its_value_and_how_far_over() -> None:
    found = refused(told(queue(backlog=4_000, may_wait=3_000)))
    assert (found.status, found.code, found.limit) == (429, "queue_full", ("tenant_queue", 3_000, 1_400))
    problem = msgspec.json.decode(as_problem(found))
    assert problem["limit"] == {"name": "tenant_queue", "value": 3_000, "over": 1_400}
    assert msgspec.json.decode(as_openai(found))["error"]["limit"] == problem["limit"]
    assert "3000 are what is served" in problem["detail"]


def test_a_full_pool_is_a_503_for_who_has_more_than_its_share_and_for_nobody_else() -> None:
    mine = queue(backlog=2_900, may_wait=3_000, fair_share=1_500)
    small = queue(tenant="birch", backlog=1_500, may_wait=3_000, fair_share=1_500)
    state = told(mine, small, accepting=False, depth=40, backlog=4_400, may_wait=3_000, served_milli=100_000)
    found = refused(state)
    assert (found.status, found.code, found.limit) == (503, "pool_full", ("pool_queue", 3_000, 1_510))
    assert found.retry_after == 16
    admitted(state, "birch")
    admitted(msgspec.structs.replace(state, accepting=True))


def test_nothing_is_refused_where_nobody_says_how_the_queue_stands_or_the_tenant_is_not_named() -> None:
    admitted(None)
    admitted(told(accepting=False, backlog=10, may_wait=1))
    admitted(told(queue(tenant="birch", backlog=9, may_wait=1), accepting=False, backlog=10, may_wait=1))
    admitted(told(queue(backlog=9, may_wait=9), accepting=False, backlog=10))


@given(backlog=AMOUNTS, may_wait=AMOUNTS, fair=AMOUNTS, accepting=st.booleans(), served=AMOUNTS)
def test_what_fits_is_never_refused(
    backlog: int, may_wait: int, fair: int, accepting: bool, served: int
) -> None:
    mine = queue(backlog=backlog, may_wait=max(may_wait, fair), fair_share=fair, served_milli=served)
    state = told(mine, accepting=accepting, backlog=backlog, may_wait=may_wait)
    if backlog <= fair or (accepting and backlog <= max(may_wait, fair)):
        admitted(state)
    else:
        assert refused(state).status == (429 if backlog > max(may_wait, fair) else 503)


@given(
    backlog=AMOUNTS,
    may_wait=AMOUNTS,
    served=AMOUNTS,
    depth=st.integers(1, 10**6),
    dice=DICE,
    waits=st.booleans(),
)
def test_when_to_come_back_is_the_formula_within_a_fifth_and_within_its_clamps(
    backlog: int, may_wait: int, served: int, depth: int, dice: float, waits: bool
) -> None:
    mine = queue(backlog=may_wait + 1 + backlog, may_wait=may_wait, served_milli=served, depth=depth)
    found, longest = refused(told(mine), waits=waits, dice=dice), 60 if waits else 600
    over = -(-mine.backlog // depth) + backlog + 1
    exact = over * 1_000 / served if served else 30
    clamped = min(max(exact, 1), longest)
    assert found.limit is not None
    assert found.limit.over == over
    assert found.retry_after is not None
    assert 1 <= found.retry_after <= longest
    assert 0.8 * clamped <= found.retry_after <= 1.2 * clamped + 1
    assert (found.may_retry is False) == (exact > longest)


def test_those_who_are_refused_together_do_not_come_back_together() -> None:
    state = told(queue(backlog=200_000, may_wait=100_000))
    assert len({refused(state, dice=dice / 10).retry_after for dice in range(10)}) == 10


def heard(record: QueueState | Standby | None) -> Received:
    header = b"{}" if record is None else encode(record)
    return Received("queue-state", 0, 0, WALL, b"", (("headrace", header),))


def test_only_the_highest_owners_fresh_word_counts() -> None:
    clock = ManualClock(wall_ms=WALL)
    queues = QueueStates(MemoryBus().async_reader("q"), Place("queue-state", 0), clock)
    assert queues.of("main", "standard") is None
    queues.hear(heard(told(depth=1)))
    for passed_over in (told(depth=2, epoch=2), None):
        queues.hear(heard(passed_over))
    queues.hear(heard(Standby(pool="main", replica="r", as_of_ms=WALL, rank=0)))
    found = queues.of("main", "standard")
    assert found is not None
    assert (found.depth, queues.of("main", "batch")) == (1, None)
    clock.advance(FRESH)
    assert queues.of("main", "standard") is not None
    clock.advance(timedelta(milliseconds=1))
    assert queues.of("main", "standard") is None
    queues.hear(heard(told(depth=3, epoch=2, as_of_ms=clock.now().wall_ms)))
    found = queues.of("main", "standard")
    assert found is not None
    assert found.depth == 3


def test_an_old_word_that_is_read_late_does_not_count() -> None:
    clock = ManualClock(wall_ms=WALL + 6_000)
    queues = QueueStates(MemoryBus().async_reader("q"), Place("queue-state", 0), clock)
    queues.hear(heard(told()))
    assert queues.of("main", "standard") is None
