"""A text is gone on from only where it is what it says, and stopped by nothing that it may have caused."""

from collections.abc import Callable

import pytest

from headrace.contracts.commands import Run
from headrace.contracts.failures import FailureKind
from headrace.contracts.kept_text import KeptText
from headrace.contracts.values import Failure
from headrace.scheduler.decisions.which_text_is_kept import has_gained, is_text_blameless
from tests.support.scheduler.case import Case
from tests.support.scheduler.going_on import SAID, answer, began, leave, runs_of, state_of, text_beside


def leave_of_another(case: Case, run: Run) -> None:
    another = run.attempt._replace(sequence=0)
    leave(case, run, text=KeptText(attempt=another, size=16, tokens=1, characters=1))


def leave_less_than_told(case: Case, run: Run) -> None:
    leave(case, run, text=KeptText(attempt=run.attempt, size=17, tokens=1, characters=1))


def leave_more_tokens_than_bytes(case: Case, run: Run) -> None:
    leave(case, run, tokens=17)


def leave_after_a_failure(case: Case, run: Run) -> None:
    leave(case, run, kind=FailureKind.BACKEND_ERROR)


def leave_nothing(case: Case, run: Run) -> None:
    leave(case, run, b"")


@pytest.mark.parametrize(
    "leaves",
    [
        leave_of_another,
        leave_less_than_told,
        leave_more_tokens_than_bytes,
        leave_after_a_failure,
        leave_nothing,
    ],
)
def test_a_text_that_is_not_what_it_says_or_comes_of_a_failure_is_left(
    leaves: Callable[[Case, Run], None],
) -> None:
    case, request, first = began()
    leaves(case, first)
    case.run(2_000)
    second = runs_of(case, request)[1]
    assert (second.text, text_beside(case, second)) == (None, None)


@pytest.mark.parametrize(
    ("kind", "started", "stays"),
    [
        (FailureKind.WORKER_NOT_LEASED, False, True),
        (FailureKind.BACKEND_UNAVAILABLE, False, True),
        (FailureKind.BACKEND_OVERLOADED, True, True),
        (FailureKind.BACKEND_ERROR, True, False),
        (FailureKind.STREAM_BROKEN, True, False),
        (FailureKind.ENGINE_DIED, True, False),
    ],
)
def test_an_outage_leaves_a_text_and_a_failure_that_may_be_due_to_it_does_not(
    kind: FailureKind, started: bool, stays: bool
) -> None:
    assert is_text_blameless(kind, started=started) is stays
    case, request, first = began()
    leave(case, first)
    case.run(600)
    answer(case, runs_of(case, request)[1], failure=Failure(kind=kind), started=started)
    case.run(500)
    known = state_of(case).retrying[request.id]
    assert ((known.text is not None), known.text_at is not None) == (stays, stays)
    assert (state_of(case).texts.of(request.id) == SAID) is stays


def test_a_failure_that_may_be_due_to_a_text_leaves_none() -> None:
    case, request, first = began()
    leave(case, first)
    case.run(600)
    answer(case, runs_of(case, request)[1], failure=Failure(kind=FailureKind.BACKEND_ERROR))
    case.run(1_000)
    assert runs_of(case, request)[2].text is None
    assert len(state_of(case).texts) == 0


def test_who_leaves_no_more_than_it_found_has_gained_nothing() -> None:
    assert not has_gained(None, None)
