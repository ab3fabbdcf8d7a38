"""A backend that answers 429 and says when to come back is spared until then, by all; nothing fails for it."""

from typing import Any

import pytest

from headrace.contracts.commands import Run
from headrace.contracts.explanations import Gate
from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import boot_id
from headrace.contracts.outcomes import Verdict
from headrace.contracts.values import Failure
from headrace.scheduler.decisions.how_much_may_a_backend_hold import Binding
from tests.support.scheduler.asking import asked_why
from tests.support.scheduler.limited_backends import Pool
from tests.support.scheduler.pure import WALL


def refused(pool: Pool, run: Run, *, retry_after_ms: int | None = 5_000, status: int = 429) -> None:
    """Its backend has no room for it just now."""
    failure = Failure(
        kind=FailureKind.BACKEND_OVERLOADED, backend_status=status, retry_after_ms=retry_after_ms
    )
    pool.held["api"].pop(run.request.id, None)
    pool.case.answer(
        run, Verdict.RETRY_AT, failure=failure, worker="api", boot=pool.boots["api"], started=True
    )


def refusing(**says: Any) -> Pool:
    """A backend that has refused the first of three requests, though nobody said what it takes."""
    pool = Pool({"api": None})
    pool.took_ms = (60_000, 60_000)
    pool.case.submit()
    pool.live(0.5)
    ((run, _),) = pool.held["api"].values()
    refused(pool, run, **says)
    pool.case.run(50)
    for _ in range(2):
        pool.case.submit()
    return pool


def test_a_backend_that_asks_to_be_spared_is_given_nothing_until_then() -> None:
    pool = refusing()
    pool.live(4.5)
    assert pool.counts()["api"] == 1
    core = pool.case.owner.core
    assert core is not None
    assert [each.binds for each in core._holding.figures()] == [Binding.CEILING]
    pool.live(1.5)
    assert pool.counts()["api"] >= 3
    assert not pool.state.backend_ceilings, "nothing is kept of it"
    assert not pool.case.results()


@pytest.mark.parametrize("says", [{"retry_after_ms": None}, {"status": 503}], ids=str)
def test_who_says_no_time_or_has_another_trouble_is_tried_again_by_the_usual_rules(
    says: dict[str, Any],
) -> None:
    pool = refusing(**says)
    pool.live(1)
    assert pool.counts()["api"] >= 3


def test_nobody_is_spared_for_longer_than_a_minute() -> None:
    pool = refusing(retry_after_ms=86_400_000)
    pool.live(58)
    assert pool.counts()["api"] == 1
    pool.live(3)
    assert pool.counts()["api"] >= 3


def test_others_take_the_work_of_one_that_is_spared_and_it_says_why_where_there_are_none() -> None:
    pool = refusing()
    pool.takes["own"], pool.boots["own"] = None, boot_id(WALL + 9, bytes(10))
    pool.held["own"], pool.started["own"] = {}, []
    pool.live(2)
    assert pool.counts() == {"api": 1, "own": 2}
    alone = refusing()
    waits = alone.case.submit()
    alone.live(0.5)
    answer, why = asked_why(alone.case, waits.id)
    (closed,) = why.closed
    assert (closed.gate, closed.limit) == (Gate.BACKEND_CEILING, None)
    assert closed.until_ms is not None
    assert 3_000 < closed.until_ms - answer.as_of_ms <= 5_000
