"""Which requests go to another pool by the operator's rules: the decision alone."""

from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.fallbacks import Fallback
from headrace.contracts.requests import RequestRecord
from headrace.contracts.values import Payload
from headrace.scheduler.decisions.which_fallback import Here, There, which_fallback

WALL = 1_700_000_000_000
RECORD = RequestRecord(
    id="i", tenant="t", pool="p", tier="batch", partition=0, model="m", route="/r", accepted_ms=WALL,
    payload=Payload(size=2), gateway=0, prompt_tokens=100, max_tokens=50,
)  # fmt: skip
HERE = Here(waited_ms=0, wait_ms=60_000, without_ms=0, answer_ms=1_000, cost=200_000_000, context_length=None)
THERE = There(wait_ms=0, takes=True, context_length=None)
PATIENT = Fallback(pool="b", wait_above=timedelta(seconds=20))
PUNCTUAL = Fallback(pool="b", deadline=True)
THRIFTY = Fallback(pool="b", cost_above=150)
SPACIOUS = Fallback(pool="b", too_long=True)


def goes(fallback: Fallback, here: Here = HERE, there: There | None = THERE, **more: Any) -> bool:
    record = msgspec.structs.replace(RECORD, **more)
    pools = {} if there is None else {"b": there}
    return which_fallback(record, [fallback], here, pools, WALL) is fallback


def test_who_would_wait_too_long_goes_where_the_wait_is_shorter() -> None:
    assert goes(PATIENT)
    assert not goes(PATIENT, HERE._replace(wait_ms=19_000))
    assert goes(PATIENT, HERE._replace(wait_ms=19_000, waited_ms=2_000))
    assert not goes(PATIENT, there=THERE._replace(wait_ms=58_500))
    assert goes(PATIENT, there=THERE._replace(wait_ms=58_499))
    assert not goes(PATIENT, there=THERE._replace(wait_ms=None))


def test_where_nobody_knows_how_long_the_patience_counts_from_arrival() -> None:
    unknown = HERE._replace(wait_ms=None)
    assert not goes(PATIENT, unknown._replace(waited_ms=20_000))
    assert goes(PATIENT, unknown._replace(waited_ms=20_001))


def test_without_a_backend_it_goes_once_that_has_lasted() -> None:
    assert not goes(PATIENT, HERE._replace(without_ms=20_000))
    assert goes(PATIENT, HERE._replace(without_ms=20_001, wait_ms=None))


def test_a_deadline_that_is_kept_there_alone_is_kept_there() -> None:
    assert goes(PUNCTUAL, finish_by_ms=WALL + 30_000)
    assert not goes(PUNCTUAL)
    assert not goes(PUNCTUAL, finish_by_ms=WALL + 61_000)
    assert not goes(PUNCTUAL, there=THERE._replace(wait_ms=29_000), finish_by_ms=WALL + 30_000)
    assert not goes(PUNCTUAL, HERE._replace(wait_ms=None), finish_by_ms=WALL + 30_000)
    assert goes(PUNCTUAL, HERE._replace(wait_ms=None, without_ms=1), finish_by_ms=WALL + 30_000)


def test_what_is_dear_goes_to_where_the_operator_wants_it() -> None:
    assert goes(THRIFTY)
    assert not goes(THRIFTY, HERE._replace(cost=150_000_000))


def test_what_is_too_long_for_this_pool_goes_wherever_it_fits() -> None:
    short = HERE._replace(context_length=149)
    closed = There(wait_ms=None, takes=False, context_length=150)
    assert goes(SPACIOUS, short, closed)
    assert not goes(SPACIOUS, short._replace(context_length=150), closed)
    assert not goes(SPACIOUS, short, closed._replace(context_length=149))


def test_the_first_fallback_whose_condition_holds_counts() -> None:
    fallbacks = [THRIFTY, PATIENT, Fallback(pool="c", cost_above=1)]
    pools = {"b": THERE, "c": THERE}
    assert which_fallback(RECORD, fallbacks, HERE._replace(cost=9_000_000), pools, WALL) is PATIENT


HERES = st.builds(
    Here, st.integers(0, 10**6), st.none() | st.integers(0, 10**6), st.integers(0, 10**5),
    st.none() | st.integers(0, 10**5), st.integers(1, 10**9), st.none() | st.integers(1, 400),
)  # fmt: skip
THERES = st.builds(There, st.none() | st.integers(0, 10**6), st.booleans(), st.none() | st.integers(1, 400))


@given(HERES, THERES, st.sampled_from([PATIENT, PUNCTUAL, THRIFTY, SPACIOUS]), st.integers(0, 10**6))
def test_nobody_goes_where_it_does_not_fit_or_is_not_taken_or_waits_as_long(
    here: Here, there: There, fallback: Fallback, left_ms: int
) -> None:
    if not goes(fallback, here, there, finish_by_ms=WALL + left_ms):
        return
    assert there.context_length is None or there.context_length >= 150
    if fallback is SPACIOUS:
        assert here.context_length is not None
        assert here.context_length < 150
        return
    assert there.takes
    if fallback is PATIENT and here.wait_ms is not None and not here.without_ms:
        assert there.wait_ms is not None
        assert there.wait_ms < here.wait_ms
    if fallback is PUNCTUAL:
        assert there.wait_ms is not None
        assert there.wait_ms + (here.answer_ms or 0) < left_ms
