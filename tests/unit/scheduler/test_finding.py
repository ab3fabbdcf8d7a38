"""What an operator is told of the queue: which requests fit, however many there are, wherever they are kept."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.bus.messages import message_of
from headrace.contracts.control import Query
from headrace.contracts.replies import Answer
from headrace.contracts.requests import RequestRecord
from headrace.contracts.selections import Find, Found, Selection, Stage
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Origin
from headrace.scheduler.core import finding
from headrace.scheduler.decisions.does_it_fit import Facts, does_it_fit
from headrace.scheduler.state.sorted_runs import Pair, SortedPairs
from tests.support.scheduler.case import Case
from tests.support.scheduler.flood import Flood
from tests.support.scheduler.pure import place

FACTS = Facts("req_abc", "a", "batch", "m", 1_000, Stage.QUEUED, Origin("t", 3, 7))


def found(case: Case, most: int = 0, **fields: Any) -> Found:
    """What the owner says to a question that is asked now."""
    before = len(case.world.records(TopicKind.REPLIES))
    find = Find(selection=Selection(**fields), most=most)
    case.world.append(message_of(place(TopicKind.CONTROL), Query(id="n", nonce="n", gateway=0, find=find)))
    for _ in range(10):
        case.run(300)
        if len(case.world.records(TopicKind.REPLIES)) > before:
            break
    told = case.world.records(TopicKind.REPLIES)[before:]
    assert len(told) == 1
    assert isinstance(told[0], Answer)
    assert told[0].found is not None
    return told[0].found


def test_whose_end_is_under_way_fits_any_stage() -> None:
    assert does_it_fit(Selection(stage=Stage.RUNNING), FACTS._replace(stage=None))
    assert not does_it_fit(Selection(stage=Stage.RUNNING, tenant="b"), FACTS._replace(stage=None))


@pytest.mark.parametrize(
    ("fields", "fits"),
    [
        ({}, True),
        ({"tier": "batch", "tenant": "a", "model": "m", "stage": Stage.QUEUED}, True),
        ({"tier": "interactive"}, False),
        ({"tenant": "b"}, False),
        ({"model": "n"}, False),
        ({"stage": Stage.RUNNING}, False),
        ({"id_prefix": "req_ab"}, True),
        ({"id_prefix": "eq_ab"}, False),
        ({"accepted_before_ms": 1_001}, True),
        ({"accepted_before_ms": 1_000}, False),
        ({"stands_before": {"t": {3: 8}}}, True),
        ({"stands_before": {"t": {3: 7}}}, False),
        ({"stands_before": {"t": {2: 8}, "u": {3: 8}}}, False),
        ({"stands_before": {}}, False),
    ],
)
def test_a_request_fits_when_it_fits_every_field_that_is_given(fields: dict[str, Any], fits: bool) -> None:
    assert does_it_fit(Selection(**fields), FACTS) is fits


PAIRS = st.tuples(st.integers(0, 8), st.integers(0, 8))


@given(st.sets(PAIRS), PAIRS, st.integers(1, 12), st.integers(2, 5))
def test_what_comes_after_a_pair_is_found_in_order(
    members: set[Pair], pair: Pair, most: int, in_one: int
) -> None:
    pairs = SortedPairs(in_one)
    for member in sorted(members, key=lambda each: hash(str(each))):
        pairs.add(*member)
    assert pairs.after(pair, most) == [each for each in sorted(members) if each > pair][:most]


def one_after_the_other(case: Case, count: int) -> list[RequestRecord]:
    """Requests of different ages."""
    made = []
    for _ in range(count):
        made.append(case.submit())
        case.run(25)
    return made


@pytest.mark.parametrize("looks", [1, 7, 500])
def test_waiting_spilled_and_running_requests_are_counted_and_the_oldest_named(
    monkeypatch: pytest.MonkeyPatch, looks: int
) -> None:
    monkeypatch.setattr(finding, "LOOKS", looks)
    case = Flood(limit=2)
    first = one_after_the_other(case, 2)
    case.run(600)
    more = one_after_the_other(case, 8)
    other = case.submit(tenant="b", into="interactive")
    case.run(600)
    assert case.owner.core is not None
    assert len(case.owner.core.state.spilled) > 0
    everything = found(case, most=3)
    assert (everything.queued, everything.running) == (9, 2)
    assert [each.id for each in everything.requests] == [each.id for each in (*first, *more)][:3]
    assert everything.requests[0].stage is Stage.RUNNING
    assert found(case, tenant="a", stage=Stage.QUEUED) == Found(queued=8, running=0)
    of_b = found(case, most=9, tier="interactive", id_prefix=other.id[:-1])
    assert [each.id for each in of_b.requests] == [other.id]
    assert len(case.owner.core.state.spilled) > 0, "looking brings nothing into memory"


def test_a_full_window_is_told_and_a_step_looks_at_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "LOOKS", 1)
    case = Case()
    case.run()
    case.report(limit=0)
    for _ in range(20):
        case.submit()
    case.run()
    core = case.owner.core
    assert core is not None
    told = found(case)
    assert told.queued == len(core.state.tracked)
    assert told.unread_partitions == 1
    assert found(case, tier="interactive") == Found(queued=0, running=0)
