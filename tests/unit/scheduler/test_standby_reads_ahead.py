"""What a standby keeps of a pool's logs, and what its takeover makes of it."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from headrace.bus.memory import MemoryBus
from headrace.bus.messages import Message, Received, message_of
from headrace.bus.topic_check import apply_topics
from headrace.contracts.checkpoints import Finished
from headrace.contracts.clock import Now
from headrace.contracts.reports import Gone, Report, Tick
from headrace.contracts.topics import TopicKind, required_topics
from headrace.scheduler.core.pool_core import PoolCore
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.step import Inputs
from headrace.scheduler.decisions.when_to_pause import Window
from headrace.scheduler.following import Following
from headrace.scheduler.state.offsets import FinishedOffsets
from headrace.scheduler.state.read_ahead import ReadAhead
from headrace.scheduler.state.workers import Workers
from tests.support.scheduler.processes import SimScheduler
from tests.support.scheduler.pure import NAMES, POOL, WALL, World, place, policy

WHERE = place(TopicKind.REQUESTS, 0, "batch")
NOW = Now(WALL, 0)


def record(offset: int, value: bytes = b"") -> Received:
    return Received(WHERE.topic, WHERE.partition, offset, WALL, value)


def finished_of(offsets: set[int]) -> FinishedOffsets:
    made = FinishedOffsets()
    for offset in offsets:
        made.add(offset)
    return made


@given(st.lists(st.sets(st.integers(0, 40)), min_size=1, max_size=4), st.integers(1, 40), st.data())
def test_all_that_is_unfinished_is_there_and_how_far_it_reaches(
    growing: list[set[int]], end: int, data: st.DataObject
) -> None:
    ahead, known = ReadAhead(0), set[int]()
    read = 0
    for more in growing:
        known |= more
        ahead.know(finished_of(known))
        for offset in range(read, read := data.draw(st.integers(read, end))):
            ahead.read(record(offset))
    there = [received.offset for received in ahead.all()]
    assert set(range(read)) - known <= set(there)
    assert set(there) <= (set(range(read)) - known) | ({read - 1} if read else set())
    assert there == sorted(there)
    assert not read or there[-1] == read - 1
    assert ahead.size >= 0


def test_it_stops_at_its_window_and_goes_on_once_the_owner_has_finished_some() -> None:
    ahead, window = ReadAhead(0), Window(high_records=4, low_records=2)
    for offset in range(5):
        ahead.read(record(offset))
    ahead.decide(window, 0, 1_000)
    assert ahead.paused
    ahead.know(FinishedOffsets(3))
    ahead.decide(window, 999, 1_000)
    assert ahead.paused  # pausing throws fetched data away, so not too often
    ahead.decide(window, 1_000, 1_000)
    assert not ahead.paused


class Follow:
    """One pool in memory, followed."""

    def __init__(self, high_records: int = 40) -> None:
        self.bus = MemoryBus()
        setting = SimScheduler(World(1), 0).setting
        self.setting = replace(setting, window=Window(high_records, high_records // 2))
        pools, tiers = [POOL], policy().tiers
        apply_topics(
            self.bus.topics("t"), required_topics(NAMES, policy().topics.counts(), pools=pools, tiers=tiers)
        )
        self.producer = self.bus.loop_producer("t", delivery_timeout=timedelta(seconds=1))
        self.following = Following(self.setting, self.bus.loop_reader("t"))

    def turn(self, times: int = 5, checkpoint_ms: int = 0) -> None:
        for _ in range(times):
            self.following.turn(NOW, checkpoint_ms)

    def taken_over(self) -> tuple[PoolState, list[int], dict[object, int]]:
        state = PoolState.empty(self.setting, 1)
        records, positions = self.following.hand_over(state)
        return state, [received.offset for received in records], dict(positions)


def test_a_backlog_is_followed_as_far_as_a_quarter_of_the_window_goes() -> None:

    follow = Follow(high_records=40)
    for _ in range(1_000):
        follow.producer.send(Message(WHERE.topic, WHERE.partition, b"x"), None)
    follow.following.start([Finished(topic=WHERE.topic, partition=WHERE.partition, prefix=100)])
    follow.turn()
    assert 10 <= follow.following.prefetched <= 510
    assert follow.following.behind({WHERE: 1_000}) == 0  # it reads no further for now
    before = follow.following.prefetched
    follow.turn()
    assert follow.following.prefetched == before
    _, offsets, positions = follow.taken_over()
    assert offsets == list(range(100, 100 + before))
    assert positions == {WHERE: 100 + before}


def test_nothing_is_handed_over_before_the_state_log_was_read() -> None:
    follow = Follow()
    follow.turn()
    state, offsets, positions = follow.taken_over()
    assert (offsets, positions, state.workers_read) == ([], {}, 0)


def test_reports_that_the_owner_may_not_have_judged_are_left_to_its_successor() -> None:
    follow = Follow()
    report = Report(worker="w", boot="1", epoch=1, lane=0, position=0, limit=1)
    for _ in range(3):
        follow.producer.send(message_of(place(TopicKind.WORKERS), report), None)
    follow.following.start([])
    written = follow.bus.loop_reader("look")
    written.assign({place(TopicKind.WORKERS): 0})
    at_ms = written.read(10, timedelta(seconds=1))[-1].timestamp_ms
    follow.turn(checkpoint_ms=at_ms)
    state, offsets, positions = follow.taken_over()
    assert (offsets, positions) == ([0, 1, 2], {place(TopicKind.WORKERS): 3})
    assert (state.workers_read, state.workers.live) == (0, {})
    follow = Follow()
    follow.producer.send(message_of(place(TopicKind.WORKERS), report), None)
    follow.following.start([])
    follow.turn(checkpoint_ms=at_ms + 60_000)
    state, offsets, positions = follow.taken_over()
    assert (offsets, positions, state.workers_read) == ([], {}, 1)
    assert list(state.workers.live) == ["w"]


REPORTS = st.builds(
    Report,
    worker=st.sampled_from(["a", "b"]),
    boot=st.sampled_from(["1", "2", "3"]),
    epoch=st.integers(0, 2),
    lane=st.integers(0, 3),
    position=st.just(0),
    limit=st.just(1),
)
GONE = st.builds(Gone, worker=st.sampled_from(["a", "b"]), boot=st.sampled_from(["1", "2", "3"]))
TICKS = st.builds(Tick, epoch=st.integers(1, 2), number=st.integers(0, 30))


@given(st.lists(st.one_of(REPORTS, GONE, TICKS), max_size=60))
def test_a_standby_knows_the_same_workers_as_the_owner_who_read_the_same_log(
    log: list[Report | Gone | Tick],
) -> None:

    world = World(1)
    owner = PoolCore(PoolState.empty(SimScheduler(world, 0).setting, 3))
    owner.claim(NOW)
    workers = Workers()
    for written in log:
        world.append(message_of(place(TopicKind.WORKERS), written))
        workers.follow(written, lanes=3)
    owner.step(Inputs(records=world.logs[place(TopicKind.WORKERS)]), NOW)
    known = owner.state.workers
    assert {name: (w.boot, w.report, w.ticks) for name, w in workers.live.items()} == {
        name: (w.boot, w.report, w.ticks) for name, w in known.live.items()
    }
    assert set(workers.graves) == set(known.graves)
