"""Cancels that can't be applied yet: none is lost, none hides another, and a backlog of them costs nothing."""

from hypothesis import example, given
from hypothesis import strategies as st

from headrace.bus.messages import Place, Received, message_of
from headrace.contracts.control import CancelRequest
from headrace.contracts.lifecycle import Status
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core import needed_from
from headrace.scheduler.state.pending import Cancels, PendingCancel
from tests.support.scheduler.case import Case
from tests.support.scheduler.pure import WALL, place

WHERE = [place(TopicKind.REQUESTS, n, "batch") for n in range(2)]


def pending(offset: int, request: str, tenant: str, partition: int, read_to: int) -> PendingCancel:
    received = Received("control", 0, offset, WALL, b"", ())
    return PendingCancel(
        received, CancelRequest(id=request, tenant=tenant, at_ms=WALL), WHERE[partition], read_to
    )


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("keep"), st.sampled_from("rstu"), st.sampled_from("ab")),
        st.tuples(st.just("end"), st.sampled_from("rstu"), st.just("")),
        st.tuples(st.just("wake"), st.sampled_from("rstu"), st.just("")),
        st.tuples(st.just("read"), st.sampled_from("01"), st.just("")),
        st.tuples(st.just("look"), st.just(""), st.just("")),
    ),
    max_size=60,
)


PARKED_AGAIN = [
    ("keep", "s", "a"),
    *[("read", "1", "")] * 2,
    ("look", "", ""),
    ("keep", "u", "a"),
    *[("look", "", "")] * 2,
]


@given(STEPS)
@example(PARKED_AGAIN)
def test_every_cancel_is_looked_at_once_it_may_be_applied(steps: list[tuple[str, str, str]]) -> None:
    cancels, model, read = Cancels(), dict[int, PendingCancel](), dict.fromkeys(WHERE, 0)
    may: set[int] = set()
    for offset, (what, name, tenant) in enumerate(steps):
        if what == "keep" and not cancels.has(name, tenant):
            partition = ord(name) % 2
            model[offset] = pending(offset, name, tenant, partition, read[WHERE[partition]] + 2)
            cancels.keep(model[offset])
            may.add(offset)
        elif what == "end":
            cancels.ended(name)
            model = {at: each for at, each in model.items() if each.request.id != name}
        elif what == "wake":
            cancels.wake(name)
            may |= {at for at, each in model.items() if each.request.id == name}
        elif what == "read":
            read[WHERE[int(name)]] += 1
        elif what == "look":
            looked = cancels.to_look_at(read.__getitem__)
            ripe = {
                at for at, each in model.items() if each.place and read[each.place] >= (each.read_to or 0)
            }
            assert {each.offset for each in looked} == (may & set(model)) | ripe
            for each in looked:
                cancels.park(each)
            may = ripe  # they may be parked again at once, and are found again
        assert len(cancels) == len(model)
        assert cancels.first_offset == min(model, default=None)


def test_a_cancel_of_what_nobody_has_read_waits_without_being_looked_at_and_is_obeyed_then() -> None:
    case = Case()
    case.run()
    case.report(limit=0)
    record = case.submit()
    where = place(TopicKind.REQUESTS, record.partition, "batch")
    case.owner.stalled[where] = case.world.now_ms + 3_000  # the log takes records, but isn't read
    cancel = CancelRequest(id=record.id, tenant="a", at_ms=WALL)
    before = len(case.world.logs[place(TopicKind.CONTROL)])
    case.world.append(message_of(place(TopicKind.CONTROL), cancel))
    case.run(2_000)
    core = case.owner.core
    assert core is not None
    state = core.state

    def read(asked: Place) -> int:
        return state.partitions.by_place[asked].next_offset

    assert len(state.cancels) == 1
    assert state.cancels.to_look_at(read) == []
    assert needed_from.control_to_keep(state) == before, "a successor reads it again"
    case.run(2_000)
    assert [(one, status) for one, status, _ in case.results()] == [(record.id, Status.CANCELLED)]
    assert not state.cancels
    assert needed_from.control_to_keep(state) == before + 1
