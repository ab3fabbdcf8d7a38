"""What is kept of a spilled request, and where it is found: by id, in its tenant's order, by instant."""

from bisect import bisect_left
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headrace.bus.messages import Place, Received
from headrace.contracts.requests import MOST_HOPS, RequestRecord
from headrace.contracts.values import Origin, Payload
from headrace.scheduler.decisions.pick_next import order_key, order_of
from headrace.scheduler.state import spilled as spilled_module
from headrace.scheduler.state.packed import Packing, charge_of, key_of_order, order_of_packed
from headrace.scheduler.state.sorted_runs import SortedPairs, SortedRecords
from headrace.scheduler.state.spilled import Spilled
from headrace.scheduler.state.tracked import Phase, Tracked

WALL = 1_700_000_000_000
NAMES = st.text(min_size=1, max_size=12)
COUNTS = st.integers(0, 2**53)
INSTANTS = st.integers(WALL, WALL + 10**6)
RECORDS: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    id=NAMES,
    tenant=NAMES,
    tier=NAMES,
    model=NAMES,
    route=st.text(max_size=30),
    accepted_ms=INSTANTS,
    gateway=st.integers(0, 65_535),
    waits=st.booleans(),
    stream=st.booleans(),
    sends_usage=st.booleans(),
    plain_text=st.booleans(),
    answer=st.none() | NAMES,
    prompt_tokens=COUNTS,
    max_tokens=st.none() | COUNTS,
    choices=COUNTS,
    sequences=COUNTS,
    media=COUNTS,
    priority=st.integers(-(2**31), 2**31),
    fairness_key=st.none() | NAMES,
    start_by_ms=st.none() | INSTANTS,
    finish_by_ms=st.none() | INSTANTS,
    hop=COUNTS,
    stays=st.booleans(),
    through=st.lists(NAMES, max_size=MOST_HOPS).map(tuple),
)


def waiting(fields: dict[str, Any], *, offset: int = 0, charge: int = 1, flow: int = 0) -> Tracked:
    """A request that was just read."""
    record = RequestRecord(pool="p", partition=3, payload=Payload(size=4), **fields)
    return Tracked(
        record=record,
        origin=Origin("requests", 3, offset),
        received=Received("requests", 3, offset, WALL, b"body"),
        trace=(("traceparent", b"00-x"),),
        order=order_of(record, offset, timedelta(minutes=10)),
        charge=charge,
        start_by_ms=record.start_by_ms,
        flow=flow,
    )


def plain(number: int, tenant: str = "a", flow: int = 0, **more: Any) -> Tracked:
    """One like many."""
    fields = {
        "id": f"req_{number}", "tenant": tenant, "tier": "t", "model": "m", "route": "/r", "gateway": 0,
        "accepted_ms": WALL + number, **more,
    }  # fmt: skip
    return waiting(fields, offset=number, charge=number + 1, flow=flow)


@given(RECORDS, COUNTS, st.integers(0, 2**64 - 1), st.integers(0, 400))
def test_what_is_unpacked_is_what_was_packed_but_for_what_the_log_alone_has(
    fields: dict[str, Any], offset: int, charge: int, flow: int
) -> None:
    packing, tracked = Packing(), waiting(fields, offset=offset, charge=charge, flow=flow)
    packed = packing.pack(tracked)
    assert packed is not None
    found = packing.unpack(packed)
    assert found.record == tracked.record
    assert (found.origin, found.order, found.charge) == (tracked.origin, tracked.order, tracked.charge)
    assert (found.start_by_ms, found.phase, found.flow) == (tracked.start_by_ms, Phase.WAITING, flow)
    assert (found.received, found.trace, found.whole) == (None, (), False)
    assert packing.stub(packed) == (tracked.id, Place("requests", 3), offset, 4)
    assert (charge_of(packed), order_of_packed(packed)) == (charge, tracked.order)


@given(RECORDS, RECORDS, COUNTS, COUNTS)
def test_packed_requests_compare_as_requests_do(
    one: dict[str, Any], other: dict[str, Any], first: int, second: int
) -> None:
    packing, left, right = Packing(), waiting(one, offset=first), waiting(other, offset=second)
    packed = [packing.pack(each) for each in (left, right)]
    assert None not in packed
    if left.order != right.order:
        assert (left.order < right.order) == (packed[0] < packed[1])  # type: ignore[operator]
        assert (left.order < right.order) == (key_of_order(left.order) < packed[1])  # type: ignore[operator]


def test_a_charge_that_is_too_large_is_not_packed_and_leaves_nothing() -> None:
    spilled = Spilled()
    assert not spilled.put(waiting(fields_of(plain(1)), charge=2**64))
    assert len(spilled) == 0
    assert len(spilled._packing._shapes) == len(spilled._packing._places) == 0


def fields_of(tracked: Tracked) -> dict[str, Any]:
    """Of its record, as `waiting` takes them."""
    names = ("id", "tenant", "tier", "model", "route", "gateway", "accepted_ms")
    return {name: getattr(tracked.record, name) for name in names}


def test_who_is_urgent_is_first_among_the_spilled() -> None:
    spilled = Spilled()
    for number, priority in enumerate((0, -1, 2, 0)):
        assert spilled.put(plain(number, priority=priority))
    assert [stub.id for stub in spilled.in_turns("t", "a", {})] == ["req_2", "req_0", "req_3", "req_1"]


def test_two_ids_of_one_key_are_never_taken_for_each_other(monkeypatch: Any) -> None:
    monkeypatch.setattr(spilled_module, "key_of", lambda _: 7)
    spilled = Spilled()
    assert spilled.put(plain(1))
    assert not spilled.put(plain(2)), "the second stays whole"
    assert "req_1" in spilled
    assert "req_2" not in spilled
    assert spilled.take("req_2") is None


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "take", "due", "first"]),
        st.integers(0, 40),
        st.integers(-2, 2),
        st.none() | st.integers(0, 50),
        st.sampled_from("ab"),
        st.sampled_from([0, 0, 3, 300]),
    ),
    max_size=120,
)


@given(ACTS)
def test_everything_is_found_as_in_a_plain_list(
    acts: list[tuple[str, int, int, int | None, str, int]],
) -> None:
    spilled, model = Spilled(), dict[str, Tracked]()
    for act, number, priority, deadline, tenant, flow in acts:
        if act == "put" and f"req_{number}" not in model:
            by_ms = None if deadline is None else WALL + deadline
            made = plain(number, tenant, flow, priority=priority, start_by_ms=by_ms)
            assert spilled.put(made)
            model[made.id] = made
        elif act == "take":
            found = spilled.take(f"req_{number}")
            assert (found and found.id) == (model.pop(f"req_{number}", None) and f"req_{number}")
        elif act == "due":
            late = [m for m in model.values() if m.start_by_ms is not None and m.start_by_ms <= WALL + number]
            assert set(spilled.due(WALL + number, 10**6)) == {each.id for each in late}
            assert len(spilled.due(WALL + number, 3)) == min(3, len(late))
        _compare(spilled, model)


def _compare(spilled: Spilled, model: dict[str, Tracked]) -> None:
    assert len(spilled) == len(model)
    assert spilled.count_of(Place("requests", 3)) == spilled.count_of_tier("t") == len(model)
    oldest = min((each.record.accepted_ms for each in model.values()), default=None)
    assert spilled.oldest_ms("t") == oldest
    instants = [each.start_by_ms for each in model.values() if each.start_by_ms is not None]
    assert spilled.next_ms() == min(instants, default=None)
    for tenant in "ab":
        own = sorted((m for m in model.values() if m.record.tenant == tenant), key=lambda m: m.order)
        assert spilled.has("t", tenant) == bool(own)
        flows = {each.flow: [other for other in own if other.flow == each.flow] for each in own}
        firsts = {flow: (of[0].order, sum(each.charge for each in of)) for flow, of in flows.items()}
        assert spilled.firsts("t", tenant) == firsts
        counters = {flow: 40 * flow % 97 for flow in flows}
        assert [stub.id for stub in spilled.in_turns("t", tenant, counters)] == _in_turns(flows, counters)
        for flow, those in flows.items():
            assert spilled.first("t", tenant, flow) == those[0].order
            ahead = those[: len(those) // 2]
            assert spilled.ahead("t", tenant, flow, those[len(those) // 2].order) == (
                len(ahead),
                sum(each.charge for each in ahead),
            )


def _in_turns(flows: dict[int, list[Tracked]], counters: dict[int, int]) -> list[str]:
    """Of the least counter first, and each charge moves it."""
    found, left, now = [], {flow: list(those) for flow, those in flows.items()}, dict(counters)
    while left:
        flow = min(left, key=lambda each: (now[each], each))
        first = left[flow].pop(0)
        now[flow] += first.charge
        found.append(first.id)
        if not left[flow]:
            del left[flow]
    return found


def test_when_all_are_gone_nothing_is_left() -> None:
    spilled = Spilled()
    for number in range(3_000):
        assert spilled.put(plain(number, f"tenant{number % 7}", start_by_ms=WALL + number % 50))
    assert len(spilled._packing._shapes) == 7
    for number in range(3_000):
        assert spilled.take(f"req_{number}") is not None
    assert not spilled._by_key
    assert not spilled.in_order
    assert spilled.next_ms() is None
    assert spilled.oldest_ms("t") is None
    assert len(spilled._packing._shapes) == len(spilled._packing._places) == 0


@given(st.lists(st.integers(0, 60), max_size=60, unique=True), st.integers(0, 60))
def test_short_lists_are_one_long_one(members: list[int], key: int) -> None:
    packed = [
        key_of_order(order_key(0, 0, 0, member)) + (member + 1).to_bytes(8, "big") for member in members
    ]
    records = SortedRecords(4)
    for each in packed:
        records.add(each)
    assert list(records) == sorted(packed)
    bound = key_of_order(order_key(0, 0, 0, key))
    before = sorted(packed)[: bisect_left(sorted(packed), bound)]
    assert records.before(bound) == (len(before), sum(map(charge_of, before)))
    for each in packed[::2]:
        records.remove(each)
    assert list(records) == sorted(packed[1::2])
    assert len(records) == len(packed[1::2])


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 60)), max_size=60, unique=True),
    st.integers(0, 9),
    st.integers(1, 70),
)
def test_pairs_are_told_by_instant_however_many_share_one(
    members: list[tuple[int, int]], now: int, most: int
) -> None:
    pairs = SortedPairs(4)
    for instant, key in members:
        pairs.add(instant, key)
    assert pairs.until(now, most) == [key for instant, key in sorted(members) if instant <= now][:most]
    for instant, key in members[::2]:
        pairs.remove(instant, key)
    rest = sorted(members[1::2])
    assert pairs.first() == (rest[0] if rest else None)
    assert pairs.until(10, 10**6) == [key for _, key in rest]
