import dataclasses
from collections import Counter
from datetime import timedelta

import pytest

from headrace.bus.messages import Message, Place, message_of
from headrace.contracts.codec import HEADER, decode
from headrace.contracts.control import CancelRequest, Query
from headrace.contracts.lifecycle import Status
from headrace.contracts.observations import DeadLetter
from headrace.contracts.partitions import partition_of
from headrace.contracts.replies import Answer
from headrace.contracts.topics import TopicKind
from headrace.scheduler.service import NoPoolLeftError
from tests.support.delivery import records_in
from tests.support.eventually import eventually
from tests.support.log_ends import trim
from tests.support.scheduler.live import FAST, Pool, turn_until
from tests.support.scheduler.live_worker import LiveWorker

DEAF_TO_SILENCE = dataclasses.replace(FAST, silent=timedelta(hours=1))
"""Takes over only what was given up, however slow the machine."""


def records(pool: Pool, where: Place, kind: TopicKind) -> list[object]:
    """All that stands there so far."""
    found = records_in(pool.bus, where.topic)
    return [decode(kind, received.header) for received in found if received.place == where]


def end_of(pool: Pool, where: Place) -> int:
    ends = pool.bus.ends("look")
    answer = eventually(ends.ask([where]).answer, "the end of a log")
    ends.close()
    return 0 if answer is None else answer[where]


def test_a_killed_scheduler_is_followed_and_nothing_finished_is_repeated(pool: Pool) -> None:
    worker, first = LiveWorker(pool), pool.scheduler("one")
    ids = pool.submit(30)
    turn_until(pool, [first.turn, worker.turn], lambda: len(pool.results_read()) >= 10)
    worker.holding = True
    turn_until(pool, [first.turn, worker.turn], lambda: sum(worker.ran.values()) >= 12)
    del first  # killed: no farewell, no last checkpoint
    second = pool.scheduler("two")
    turn_until(
        pool, [second.turn, worker.turn], lambda: 2 in {getattr(c, "epoch", 0) for c in worker.commands}
    )
    worker.holding = False
    turn_until(pool, [second.turn, worker.turn], lambda: len({r.id for r in pool.results_read()}) == len(ids))
    assert worker.ran == Counter(ids)
    assert Counter(result.id for result in pool.results) == Counter(ids)
    assert set(worker.values) == {b"{}"}
    second.stop()
    worker.close()


def test_a_stopped_scheduler_is_followed_at_once_and_reads_nothing_again(pool: Pool) -> None:
    worker, first = LiveWorker(pool), pool.scheduler("one")
    ids = pool.submit(5)
    turn_until(pool, [first.turn, worker.turn], lambda: len(pool.results_read()) == 5)
    first.stop()
    second = pool.scheduler("two", timings=DEAF_TO_SILENCE)
    ids += pool.submit(1)
    turn_until(pool, [second.turn, worker.turn], lambda: len(pool.results_read()) == 6)
    assert worker.ran == Counter(ids)
    second.stop()
    worker.close()


def test_an_owner_that_was_fenced_stands_by_and_sends_nothing_more(pool: Pool) -> None:
    worker, first, second = LiveWorker(pool), pool.scheduler("one"), pool.scheduler("two")
    pool.submit(1)
    turn_until(pool, [first.turn, worker.turn], lambda: len(pool.results_read()) == 1)
    worker.holding = True  # the first owner is paused from here on, and the second takes over
    pool.submit(1)
    turn_until(pool, [second.turn, worker.turn], lambda: sum(worker.ran.values()) == 2)
    later = pool.submit(1)
    turn_until(pool, [first.turn, second.turn, worker.turn], lambda: worker.ran[later[0]] == 1)
    worker.holding = False
    turn_until(pool, [first.turn, second.turn, worker.turn], lambda: len(pool.results_read()) == 3)
    assert max(worker.ran.values()) == 1
    for each in (first, second):
        each.stop()
    worker.close()


def test_cancels_queries_and_broken_records_are_answered(pool: Pool) -> None:
    scheduler = pool.scheduler("one")
    queued = pool.submit(2)
    cancel = CancelRequest(id=queued[1], tenant="a", at_ms=pool.clock.now().wall_ms)
    query = Query(id=queued[0], nonce="n", gateway=0)
    where = pool.place(TopicKind.REQUESTS, 1, "batch")
    broken = Message(where.topic, where.partition, b"junk", ((HEADER, b"{"),))
    pool.producer.send(message_of(pool.place(TopicKind.CONTROL), cancel), None)
    pool.producer.send(broken, None)
    turn_until(pool, [scheduler.turn], lambda: [r.status for r in pool.results_read()] == [Status.CANCELLED])
    pool.producer.send(message_of(pool.place(TopicKind.CONTROL), query), None)

    def answers() -> list[Answer]:
        found = records(pool, pool.place(TopicKind.REPLIES), TopicKind.REPLIES)
        return [answer for answer in found if isinstance(answer, Answer)]

    turn_until(pool, [scheduler.turn], lambda: bool(answers()))
    assert [(a.status, a.position, a.nonce) for a in answers()] == [(Status.QUEUED, 0, "n")]

    def letters() -> list[DeadLetter]:
        found = records(pool, pool.place(TopicKind.DLQ, 1), TopicKind.DLQ)
        return [letter for letter in found if isinstance(letter, DeadLetter)]

    turn_until(pool, [scheduler.turn], lambda: bool(letters()))
    assert [(d.partition, d.offset) for d in letters()] == [(1, 2)]
    scheduler.stop()


def test_an_owner_that_lags_behind_the_hour_of_reports_rebuilds_by_itself(pool: Pool) -> None:
    worker, scheduler = LiveWorker(pool), pool.scheduler("one")
    pool.submit(1)
    turn_until(pool, [scheduler.turn, worker.turn], lambda: len(pool.results_read()) == 1)
    where = pool.place(TopicKind.WORKERS)
    before, grown = end_of(pool, where), 0
    while grown < before + 3:  # the owner is paused, and what it hasn't read of `workers` expires
        worker.turn()
        grown = end_of(pool, where)
    trim(pool.bus, {where: grown})
    pool.submit(1)
    turn_until(pool, [scheduler.turn, worker.turn], lambda: len(pool.results_read()) == 2)
    scheduler.stop()
    worker.close()


def test_a_log_that_was_trimmed_beyond_a_needed_position_stops_the_pool_with_a_sentence(pool: Pool) -> None:
    first = pool.scheduler("one")
    pool.submit(3)
    where = pool.place(TopicKind.REQUESTS, partition_of("a", 2), "batch")
    turn_until(pool, [first.turn], lambda: bool(records(pool, pool.place(TopicKind.STATE), TopicKind.STATE)))
    first.stop()
    trim(pool.bus, {where: 2})
    second = pool.scheduler("two")
    with pytest.raises(
        NoPoolLeftError, match=rf"needs {where.topic}/{where.partition} from offset 0 on.*bring it back"
    ):
        turn_until(pool, [second.turn], lambda: False)
    second.stop()
