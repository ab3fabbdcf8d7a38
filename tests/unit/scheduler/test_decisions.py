"""The smaller decisions and data structures, by their properties."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.contracts.failures import FAILURES, FailureKind
from headrace.scheduler.decisions.how_much_may_a_backend_hold import room_of
from headrace.scheduler.decisions.is_dead import deaf_too_long, silent_too_long
from headrace.scheduler.decisions.may_take_over import may_take_over, silence_to_wait
from headrace.scheduler.decisions.when_expired import expired_as, expires_ms, start_by_of
from headrace.scheduler.decisions.when_to_pause import Window, paused_since, should_be_paused
from headrace.scheduler.decisions.when_to_retry import Again, GiveUp, when_to_retry
from headrace.scheduler.decisions.which_backend import Candidate, load_of
from headrace.scheduler.decisions.who_follows import rank_of
from headrace.scheduler.state.offsets import BLOCK, FinishedOffsets
from headrace.scheduler.state.recent import ByMinute

WALL = 1_700_000_000_000
LIMITS = st.one_of(st.none(), st.integers(WALL, WALL + 10_000))
SECOND = timedelta(seconds=1)


@settings(deadline=None)
@given(st.lists(st.integers(0, 3 * BLOCK), max_size=200), st.integers(0, 2 * BLOCK))
def test_finished_offsets_are_a_set_and_survive_a_checkpoint(offsets: list[int], prefix: int) -> None:
    finished = FinishedOffsets(prefix)
    for offset in offsets:
        finished.add(offset)
    truth = set(range(prefix)) | set(offsets)
    assert all((offset in finished) == (offset in truth) for offset in range(3 * BLOCK + 2))
    assert finished.prefix not in truth
    assert set(range(finished.prefix)) <= truth
    again = FinishedOffsets(finished.prefix, finished.bitmaps())
    assert (again.prefix, again.bitmaps()) == (finished.prefix, finished.bitmaps())
    assert all(len(bits) <= BLOCK // 8 and block % BLOCK == 0 for block, bits in again.bitmaps().items())


def test_the_prefix_walks_over_whole_blocks() -> None:
    finished = FinishedOffsets()
    for offset in [*range(1, 2 * BLOCK + 5), 0]:
        finished.add(offset)
    assert finished.prefix == 2 * BLOCK + 5
    assert finished.bitmaps() == {}


@settings(deadline=None)
@given(
    kind=st.one_of(st.none(), st.sampled_from(FailureKind)),
    attempts=st.integers(1, 40),
    started=st.booleans(),
    at_least=st.one_of(st.just(0), st.integers(0, 10**15)),
    finish_by=LIMITS,
    random=st.floats(0, 1, exclude_max=True),
)
def test_a_retry_is_never_past_the_deadline_nor_beyond_the_attempts_allowed(
    kind: FailureKind | None,
    attempts: int,
    started: bool,
    at_least: int,
    finish_by: int | None,
    random: float,
) -> None:
    verdict = when_to_retry(
        kind,
        attempts=attempts,
        started=started,
        max_attempts=4,
        at_least_ms=at_least,
        finish_by_ms=finish_by,
        wall_ms=WALL,
        random=random,
    )
    if isinstance(verdict, GiveUp):
        return
    rule = None if kind is None else FAILURES[kind]
    counts = started and (rule is None or rule.uses_attempt)
    dies = rule is not None and rule.suspect
    assert verdict.used < 4 or not counts or dies, "only the search for a killer may go on beyond them"
    assert verdict.used == (attempts if counts else attempts - 1)
    assert verdict.wait_ms >= min(at_least, 3_600_000)
    assert finish_by is None or WALL + verdict.wait_ms < finish_by
    assert kind is None or FAILURES[kind].retryable
    assert verdict.wait_ms <= max(30_000, min(at_least, 3_600_000))


def test_an_outage_uses_up_no_attempt_and_a_failure_does() -> None:
    def used(kind: FailureKind, *, started: bool = True) -> Again | GiveUp:
        return when_to_retry(
            kind,
            attempts=3,
            started=started,
            max_attempts=3,
            at_least_ms=0,
            finish_by_ms=None,
            wall_ms=WALL,
            random=0.0,
        )

    assert used(FailureKind.BACKEND_UNAVAILABLE) == Again(0, 2)
    assert used(FailureKind.WORKER_NOT_LEASED, started=False) == Again(0, 2)
    assert used(FailureKind.WORKER_DIED) == Again(0, 3), "who is the killer is searched for"
    assert used(FailureKind.BACKEND_ERROR) == GiveUp(FailureKind.ATTEMPTS_EXHAUSTED, 3)
    assert used(FailureKind.INVALID_REQUEST) == GiveUp(FailureKind.INVALID_REQUEST, 3)


@settings(deadline=None)
@given(start_by=LIMITS, finish_by=LIMITS, wall=st.integers(WALL, WALL + 10_000))
def test_a_request_has_expired_exactly_when_its_instant_has_come(
    start_by: int | None, finish_by: int | None, wall: int
) -> None:
    due = expires_ms(start_by, finish_by, waiting=True)
    assert (expired_as(start_by, finish_by, wall) is not None) == (due is not None and wall >= due)
    assert expires_ms(start_by, finish_by, waiting=False) == finish_by


def test_a_failed_attempt_gives_the_queue_time_out_anew() -> None:
    assert start_by_of(WALL, WALL + 30_000, used=0, due_ms=0) == WALL + 30_000
    assert start_by_of(WALL, WALL + 30_000, used=1, due_ms=WALL + 60_000) == WALL + 90_000
    assert start_by_of(WALL, None, used=1, due_ms=WALL) is None


@settings(deadline=None)
@given(st.lists(st.integers(-300, 300), max_size=100))
def test_pausing_has_hysteresis_and_never_lets_the_window_grow_past_high(moves: list[int]) -> None:
    window, paused, records = Window(1000, 400, 10**9, 10**8), False, 0
    for move in moves:
        records = max(0, records + (min(move, 0) if paused else move))
        was, paused = paused, should_be_paused(paused=paused, records=records, size=0, window=window)
        if paused != was:
            assert records >= 1000 if paused else records <= 400
        assert records < 1000 + 300
    assert should_be_paused(paused=False, records=1, size=10**9, window=window)


def test_a_pause_begins_at_once_and_lasts_as_long_as_it_must() -> None:
    def since(before: int | None, records: int, boot_ms: int) -> int | None:
        return paused_since(
            before, records=records, size=0, window=Window(10, 5), boot_ms=boot_ms, resume_after_ms=1_000
        )

    assert since(None, 9, 7) is None
    assert since(None, 10, 7) == 7
    assert since(7, 10, 5_000) == 7, "what is full stays paused since it was paused"
    assert since(7, 0, 1_006) == 7
    assert since(7, 0, 1_007) is None
    assert since(7, 6, 5_000) == 7, "between the watermarks it stays as it is"


def test_a_window_upside_down_is_refused() -> None:
    with pytest.raises(ValueError, match="low watermarks"):
        Window(10, 10, 10, 1)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 64), st.integers(0, 80)), max_size=20))
def test_only_a_worker_with_room_is_chosen_and_the_least_loaded_of_them(loads: list[tuple[int, int]]) -> None:
    candidates = [
        Candidate(
            str(n), limit, held, room_of(limit=limit, held=held, healthy=True, draining=False, answered=True)
        )
        for n, (limit, held) in enumerate(loads)
    ]
    free = [c for c in candidates if c.room > 0]
    assert free == [c for c in candidates if c.held < c.limit]
    chosen = min(free, key=load_of, default=None)
    assert chosen is None or all(
        chosen.held * c.limit <= c.held * chosen.limit + c.limit * chosen.limit / 10**6 for c in free
    )


@pytest.mark.parametrize("wrong", [{"healthy": False}, {"draining": True}, {"answered": False}])
def test_the_gate_of_a_worker_can_close(wrong: dict[str, bool]) -> None:
    good = {"healthy": True, "draining": False, "answered": True}
    assert room_of(limit=4, held=1, **good) == 3
    assert room_of(limit=4, held=1, **{**good, **wrong}) == 0


def test_eight_ticks_of_one_epoch_bury_and_seven_of_each_of_two_do_not() -> None:
    assert silent_too_long({1: 9}, {1: 1})
    assert not silent_too_long({1: 8, 2: 7}, {1: 1})
    assert deaf_too_long(1_000, 16_000, 15_000)
    assert not deaf_too_long(None, 10**9, 15_000)


def test_standbys_take_over_one_after_the_other_and_never_on_an_unconfirmed_silence() -> None:
    replicas = ["a", "b", "c"]
    ranks = {name: rank_of(name, replicas, "pool", ["pool"], "b") for name in ("a", "c", "b", "unnamed")}
    assert sorted(ranks.values()) == [0, 1, 2, 2]
    assert ranks["b"] == ranks["unnamed"] == 2
    needed = silence_to_wait(1, vacant=False, silent=3 * SECOND, rank_step=2 * SECOND)
    assert needed == 5 * SECOND
    assert not may_take_over(silence=9 * SECOND, needed=needed, vacant=False, confirmed=False)
    assert may_take_over(silence=5 * SECOND, needed=needed, vacant=False, confirmed=True)
    at_once = silence_to_wait(0, vacant=True, silent=3 * SECOND, rank_step=2 * SECOND)
    assert may_take_over(silence=timedelta(), needed=at_once, vacant=True, confirmed=False)


@given(st.integers(1, 7), st.integers(1, 20))
def test_replicas_that_begin_together_share_the_pools_evenly(replicas: int, pools: int) -> None:
    names, served = [f"scheduler-{n}" for n in range(replicas)], [f"pool-{n}" for n in range(pools)]
    ranks = {pool: [rank_of(name, names, pool, served, None) for name in names] for pool in served}
    assert all(sorted(of_pool) == list(range(replicas)) for of_pool in ranks.values())
    first = [of_pool.index(0) for of_pool in ranks.values()]
    assert max(first.count(n) for n in range(replicas)) <= -(-pools // replicas)


def test_a_lone_replica_follows_itself_after_the_shortest_silence() -> None:
    assert rank_of("a", [], "pool", ["pool"], "a") == 0
    assert rank_of("a", ["a"], "pool", ["pool"], "a") == 0


def test_ids_are_forgotten_after_fifteen_minutes_and_not_before() -> None:
    recent: ByMinute[str] = ByMinute()
    pieces = {recent.add(f"r{n}", 100) for n in range(1_001)}
    assert len(pieces) == 3
    assert recent.add("r0", 101) is None
    assert recent.forget_before(115, since=0) == []
    assert len(recent.forget_before(116, since=0)) == 3
    assert "r0" not in recent
