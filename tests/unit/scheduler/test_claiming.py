"""A claim that was overtaken by another is given up; one that wasn't takes in all that was read ahead, in order."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from random import Random
from types import TracebackType
from typing import Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.bus.memory import MemoryBus
from headrace.bus.messages import Message, Place, Received, message_of
from headrace.bus.ports import Confirmation, FencedError
from headrace.bus.topic_check import apply_topics
from headrace.contracts.checkpoints import Finished
from headrace.contracts.clock import Now
from headrace.contracts.ids import AttemptId, mint_request_id
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind, required_topics
from headrace.contracts.values import Origin, Payload
from headrace.scheduler.claiming import Claiming
from headrace.scheduler.core.pool_core import PoolCore
from headrace.scheduler.core.restoring import read_state, restore
from headrace.scheduler.core.setting import Setting
from headrace.scheduler.core.step import Inputs, Notice, Send
from headrace.scheduler.decisions.when_to_pause import Window
from headrace.scheduler.owning import Owning
from headrace.scheduler.timings import Timings
from headrace.scheduler.warm import Warm
from tests.support.scheduler.pure import NAMES, POOL, WALL, World, place, policy

NOW = Now(WALL, 0)
SOON = timedelta(milliseconds=1)
REQUESTS = place(TopicKind.REQUESTS, 0, "batch")
SETTING = Setting(
    pool=POOL, owner="one", policy=policy(), names=NAMES, timings=Timings(), window=Window(8, 4), random=lambda: 0.5
)  # fmt: skip


class Replica:
    """One replica that claims the pool on this bus."""

    def __init__(self, bus: MemoryBus, name: str) -> None:
        setting = replace(SETTING, owner=name)
        self._claiming = Claiming(setting, bus, name, Warm(setting, bus, name, {}))
        self._claiming.warm.log.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._claiming.close(drop=True)

    def fence(self) -> None:
        """Only the first step: the predecessor is fenced, the ends of the logs are asked for."""
        assert self._claiming.turn(NOW, SOON) is None
        assert self._claiming._asked is not None
        self._claiming._ends = self._claiming._asked[0].answer()
        assert self._claiming._ends is not None

    def claim(self) -> PoolCore:
        """To its end."""
        for _ in range(100):
            core = self._claiming.turn(NOW, SOON)
            if core is not None:
                return core
        raise AssertionError("never claimed")


@pytest.fixture(name="bus")
def bus_with_topics() -> MemoryBus:
    return made_bus()


def made_bus() -> MemoryBus:
    bus = MemoryBus()
    topics = bus.topics("test")
    made = policy()
    apply_topics(topics, required_topics(NAMES, made.topics.counts(), pools=[POOL], tiers=made.tiers))
    topics.close()
    return bus


def test_a_claim_that_another_overtook_stands_by_and_takes_no_log_for_cut_short(bus: MemoryBus) -> None:
    with Replica(bus, "zero") as before:
        before.claim()
    with Replica(bus, "one") as slow, Replica(bus, "two") as quick:
        slow.fence()  # and now it stands still, while another takes over and works
        core = quick.claim()
        producer = bus.loop_producer("test", delivery_timeout=timedelta(seconds=1))
        for _ in range(3):
            producer.send(Message(REQUESTS.topic, REQUESTS.partition, b"{}"), None)
        partition = core.state.partitions.by_place[REQUESTS]
        for offset in range(3):
            partition.finish(offset)
        state = quick._claiming.state
        state.begin(core._checkpoints._changed())
        assert state.committed()
        with pytest.raises(FencedError):
            slow.claim()


class OldEnds:
    """As ports.Ends, of a broker that was paused when all logs were empty."""

    def ask(self, places: Sequence[Place]) -> "OldEnds":
        self._places = places
        return self

    def answer(self) -> dict[Place, int]:
        return dict.fromkeys(self._places, 0)

    def close(self) -> None:
        pass


def test_a_broker_that_lost_the_logs_hides_no_checkpoint_and_makes_no_log_too_short() -> None:
    bus = made_bus()
    with Replica(bus, "one") as first:
        core = first.claim()
        producer = bus.loop_producer("test", delivery_timeout=timedelta(seconds=1))
        producer.send(Message(REQUESTS.topic, REQUESTS.partition, b"{}"), None)
        core.state.partitions.by_place[REQUESTS].finish(0)
        state = first._claiming.state
        state.begin(core._checkpoints._changed())
        assert state.committed()
    with Replica(bus, "two") as second:
        second._claiming.warm.ends = OldEnds()
        core = second.claim()
    assert core.state.epoch == 2
    assert 0 in core.state.partitions.by_place[REQUESTS].finished


def test_a_log_that_ends_before_its_checkpoint_is_still_noticed(bus: MemoryBus) -> None:
    with Replica(bus, "one") as first:
        core = first.claim()
        core.state.partitions.by_place[REQUESTS].finish(0)
        state = first._claiming.state
        state.begin(core._checkpoints._changed())
        assert state.committed()
    with Replica(bus, "two") as second, pytest.raises(Exception, match="but the checkpoint knows it up to 1"):
        second.claim()


def notices_until_open(core: PoolCore) -> list[Notice]:
    """What it tells until its gate is open, where nobody else is and whatever it sends is in the log at once."""
    world, told, records, confirmations = (
        World(1, faults_end_ms=0),
        list[Notice](),
        list[Received](),
        list[Confirmation](),
    )
    while not core.state.open:
        out = core.step(Inputs(records, confirmations), NOW)
        told += out.notices
        confirmations = [
            Confirmation(send.token, send.message.place, world.append(send.message)) for send in out.sends
        ]
        records = [
            world.logs[each.place][each.offset or 0]
            for each in confirmations
            if each.place in core.positions()
        ]
    return told


def test_what_waits_in_a_tier_that_was_taken_out_of_the_policy_is_told_of() -> None:
    """A request there is neither lost nor served; whoever took the tier out must hear of it."""
    gone = Finished(topic=NAMES.of(TopicKind.REQUESTS, pool=POOL, tier="gone"), partition=0, prefix=7)
    state = restore(SETTING, [gone])
    core = PoolCore(state)
    core.claim(NOW)
    told = notices_until_open(core)
    assert [notice.fields["requests"] for notice in told if "taken out" in notice.event] == [
        f"{gone.topic}/0"
    ]


@settings(max_examples=20)
@given(st.randoms(use_true_random=False), st.integers(0, 1_300))
def test_what_was_finished_and_booked_lately_survives_owner_after_owner(dice: Random, count: int) -> None:
    kept: dict[bytes, Received] = {}
    finished, booked = set[str](), set[AttemptId]()
    for life in range(3):
        found = list(kept.values())
        dice.shuffle(found)
        state = restore(SETTING, read_state(found))
        state.now = NOW
        assert {one for one in finished if one not in state.recent} == set()
        assert {one for one in booked if one not in state.settled} == set()
        core = PoolCore(state)
        core.claim(NOW)
        for number in range(count):
            request_id, attempt = f"req_{life}_{number}", AttemptId(life, number)
            core._finishing.finish(request_id, Origin(REQUESTS.topic, REQUESTS.partition, number))
            assert state.settles(attempt)
            finished.add(request_id)
            booked.add(attempt)
        for offset, message in enumerate(core._checkpoints._changed()):
            assert message.key is not None
            kept[message.key] = Received(
                message.topic, message.partition, offset, WALL, message.value, message.headers, message.key
            )


class Untraced:
    """As RunTracing, where nobody collects traces."""

    def continued(self, send: Send) -> Message:
        return send.message


def request_of(number: int) -> RequestRecord:
    made = mint_request_id(
        b"k" * 32, tenant="a", pool=POOL, tier="batch", partition=REQUESTS.partition, wall_ms=WALL,
        random=number.to_bytes(10, "big"),
    )  # fmt: skip
    return RequestRecord(
        id=made, tenant="a", pool=POOL, tier="batch", partition=REQUESTS.partition, model="m", route="/r",
        accepted_ms=WALL, payload=Payload(size=2), gateway=0,
    )  # fmt: skip


def test_nothing_is_passed_over_when_more_is_read_ahead_than_is_taken_in_at_a_time(bus: MemoryBus) -> None:
    backlog, more = 1_400, 400
    producer = bus.loop_producer("test", delivery_timeout=timedelta(seconds=1))

    def submit(count: int, first: int) -> None:
        for number in range(first, first + count):
            producer.send(message_of(REQUESTS, request_of(number), b"{}"), None)

    submit(backlog, 0)
    setting = replace(SETTING, window=Window(8_000, 4_000))
    warm = Warm(setting, bus, "one", {})
    warm.log.start()
    warm.following.start([])
    for _ in range(5):
        warm.following.turn(NOW, 0)
    assert warm.following.prefetched == backlog
    submit(more, backlog)
    claiming = Claiming(setting, bus, "one", warm)
    core = None
    while core is None:
        core = claiming.turn(NOW, SOON)
    owning = Owning(core, claiming.state, warm, Untraced())
    owning.start()
    for turn in range(60):
        owning.turn(Now(WALL + turn * 100, turn * 100), owning.read(SOON))
    assert core.state.open
    assert len(core.state.tracked) == backlog + more
    owning.close(drop=True)
