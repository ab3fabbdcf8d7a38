"""How other pools stand, as their owners said lately."""

from typing import Any

from headrace.contracts.clock import Now
from headrace.contracts.observations import QueueState
from headrace.scheduler.state.elsewhere import Elsewhere
from tests.support.scheduler.pure import WALL


def state(**more: Any) -> QueueState:
    fields = {"epoch": 1, "as_of_ms": WALL, "depth": 0, "limit": 4, **more}
    return QueueState(pool="b", tier="batch", **fields)


NOW = Now(WALL, 0)


def waits(elsewhere: Elsewhere, now: Now = NOW) -> tuple[int | None, bool]:
    there = elsewhere.of_tier("batch", {"b": None}, now)["b"]
    return there.wait_ms, there.takes


def test_another_pool_stands_as_its_owner_said_lately() -> None:
    elsewhere, now = Elsewhere(), Now(WALL, 0)
    assert waits(elsewhere) == (None, False)
    elsewhere.hear(state(), now)
    assert waits(elsewhere) == (0, True)
    assert waits(elsewhere, Now(WALL, 5_001)) == (None, False)
    assert waits(elsewhere, Now(WALL + 5_001, 0)) == (None, False)
    elsewhere.hear(state(epoch=3, depth=9, backlog=50, served_milli=10_000), now)
    elsewhere.hear(state(epoch=2), now)
    assert waits(elsewhere) == (5_000, True)
    for closed in ({"frozen": True}, {"accepting": False}, {"limit": 0}):
        elsewhere.hear(state(epoch=4, **closed), now)
        assert not waits(elsewhere)[1]


def test_who_is_sent_counts_until_it_must_be_in_the_owners_word() -> None:
    elsewhere, now = Elsewhere(), Now(WALL, 0)
    elsewhere.hear(state(held=3, served_milli=1_000), now)
    assert waits(elsewhere)[0] == 0
    elsewhere.sent("b", "batch", 2_000_000, now)
    assert waits(elsewhere)[0] == 2_000
    assert waits(elsewhere, Now(WALL, 3_001))[0] == 0
