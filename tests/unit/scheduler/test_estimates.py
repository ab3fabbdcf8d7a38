"""What a caller is told of its wait: by its tenant's share and what was settled lately, never by what others asked for."""

from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.bus.messages import message_of
from headrace.contracts.commands import Run
from headrace.contracts.control import Query
from headrace.contracts.failures import FailureKind
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.policy import DEFAULT_TIERS
from headrace.contracts.replies import Answer
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Failure, Usage
from headrace.scheduler.decisions.estimate_wait import expected_rate, per_second, rate_milli_of, wait_ms
from headrace.scheduler.decisions.pick_next import tier_shares
from headrace.scheduler.state.served import Served
from headrace.scheduler.state.tracked import Phase
from tests.support.scheduler.asking import started, submit
from tests.support.scheduler.case import Case
from tests.support.scheduler.pure import place
from tests.support.scheduler.queue_alone import UNIT, queue_of, request

COSTS = st.integers(0, 10**12)
RATES = st.integers(1, 10**9)


def test_no_estimate_is_given_where_nothing_was_settled() -> None:
    assert wait_ms(9, 1, 0) is None
    assert wait_ms(9, 1, 2) == 5_000
    assert wait_ms(9, 1, 2, limit=4) == 3_000
    assert rate_milli_of(60, 30_000) == 2_000
    assert per_second(60, 0) == rate_milli_of(60, 0) == 0


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=50), RATES)
def test_who_is_served_at_a_steady_rate_starts_within_one_request_before_the_estimate(
    costs: list[int], rate: int
) -> None:
    for position, cost in enumerate(costs):
        ahead = sum(costs[:position])
        starts, estimate = Fraction(1_000 * ahead, rate), wait_ms(ahead, cost, rate)
        assert estimate is not None
        assert starts <= estimate <= starts + Fraction(1_000 * cost, rate) + 1


@given(COSTS, COSTS, COSTS, RATES, RATES, COSTS)
def test_more_ahead_makes_no_wait_shorter_and_a_greater_rate_none_longer(
    backlog: int, more: int, cost: int, rate: int, faster: int, limit: int
) -> None:
    before, behind = (wait_ms(ahead, cost, rate, limit=limit) for ahead in (backlog, backlog + more))
    sooner = wait_ms(backlog, cost, rate + faster, limit=limit)
    assert before is not None
    assert behind is not None
    assert sooner is not None
    assert 0 <= sooner <= before <= behind


@given(COSTS, COSTS, COSTS, RATES)
def test_after_the_wait_the_request_fits_and_a_moment_earlier_it_did_not(
    backlog: int, cost: int, limit: int, rate: int
) -> None:
    found = wait_ms(backlog, cost, rate, limit=limit)
    assert found is not None
    assert backlog + cost - Fraction(found * rate, 1_000) <= limit
    assert found == 0 or backlog + cost - Fraction((found - 1) * rate, 1_000) > limit


@given(COSTS, COSTS, st.fractions(0, 1))
def test_a_tenant_is_expected_to_get_its_share_at_least(own: int, pool: int, share: Fraction) -> None:
    assert expected_rate(own, pool, share) == max(own, int(pool * share))


@settings(max_examples=60)
@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 9), min_size=1),
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.sampled_from(list(DEFAULT_TIERS))), min_size=1, max_size=40
    ),
    st.randoms(use_true_random=False),
)
def test_the_shares_of_all_who_wait_are_the_whole_pool(weights: dict[str, int], puts: Any, rng: Any) -> None:
    _, queue = queue_of(tier_shares(DEFAULT_TIERS), weights)
    waiting = [request(n, tenant, tier, rng.randint(1, 9) * UNIT) for n, (tenant, tier) in enumerate(puts)]
    for each in waiting:
        queue.put(each)
    while waiting:
        pairs = {(each.record.tier, each.record.tenant) for each in waiting}
        assert sum(queue.share(*pair) for pair in pairs) == 1
        for tier, tenant in pairs:
            mine = [
                each.charge for each in waiting if (each.record.tier, each.record.tenant) == (tier, tenant)
            ]
            assert queue.backlog(tier, tenant) == (len(mine), sum(mine))
        queue.take(waiting.pop(rng.randrange(len(waiting))), Phase.HELD)


def test_who_does_not_wait_is_told_the_share_that_it_would_get() -> None:
    _, queue = queue_of({"t": Fraction(3, 4), "idle": Fraction(1, 4)}, {"a": 1, "b": 3})
    queue.put(request(1, "a", "t", UNIT))
    assert queue.share("t", "b") == Fraction(3, 4)
    assert queue.share("idle", "b") == Fraction(1, 4)
    assert queue.share("t", "a") == 1


def test_what_is_ahead_is_counted_and_costed_in_the_order_of_its_tenant() -> None:
    _, queue = queue_of({"t": Fraction(1)}, {})
    found = [request(n, "a", "t", n * UNIT, priority=n % 2) for n in range(1, 5)]
    for each in [*found, request(9, "b", "t", 99 * UNIT)]:
        queue.put(each)
    assert [queue.ahead_of(each.record, each.order)[:2] for each in found] == [
        (0, 0), (2, 4 * UNIT), (1, UNIT), (3, 6 * UNIT)
    ]  # fmt: skip
    queue.take(found[0], Phase.HELD)
    assert queue.ahead_of(found[3].record, found[3].order)[:2] == (2, 5 * UNIT)


def test_what_was_settled_is_forgotten_after_half_a_minute_and_idle_time_does_not_count() -> None:
    served = Served()
    for second in range(10):
        served.passed(second * 1_000, at_work=second > 5)
    served.settled("t", "a", 7, 9_000)
    served.settled("u", "a", 5, 9_500)
    assert (served.total, served.of_tier("t"), served.of_tenant("u", "a"), served.busy_ms) == (
        12,
        7,
        5,
        4_000,
    )
    served.passed(38_999, at_work=False)
    assert (served.total, served.of_tenant("t", "a")) == (12, 7)
    served.passed(39_000, at_work=False)
    assert (served.total, served.of_tenant("t", "a"), served.of_tier("u")) == (5, 0, 5)
    served.passed(80_000, at_work=False)
    assert (served.total, served.busy_ms) == (0, 1_000)
    assert not served._of_tenant


def test_a_pool_that_works_on_is_not_measured_over_more_than_the_window() -> None:
    served = Served()
    for tick in range(0, 100_000, 40):
        served.passed(tick, at_work=True)
    assert 29_000 <= served.busy_ms <= 30_000


def asked(case: Case, request_id: str) -> Answer:
    query = Query(id=request_id, nonce="n", gateway=0)
    case.world.append(message_of(place(TopicKind.CONTROL), query))
    case.run(200)
    found: Any = case.world.records(TopicKind.REPLIES)[-1]
    assert isinstance(found, Answer)
    assert found.id == request_id
    return found


def test_a_queued_request_is_told_its_place_and_when_it_starts_by_what_was_settled(case: Case) -> None:
    waiting = [case.submit() for _ in range(9)]
    case.run(300)
    assert asked(case, waiting[-1].id).estimated_wait_ms is None
    began_ms = case.world.now.boot_ms - 500
    for run in case.commands(Run)[:2]:
        case.answer(run, Verdict.DONE, status=Status.SUCCEEDED, usage=Usage(completion_tokens=3))
    case.run(1_000)
    found = asked(case, waiting[-1].id)
    assert (found.status, found.position) == (Status.QUEUED, 2)
    busy_ms = case.world.now.boot_ms - began_ms
    charged, settled = 3 * 2 * UNIT, 2 * 2 * UNIT
    assert found.estimated_wait_ms is not None
    assert charged * (busy_ms - 300) <= settled * found.estimated_wait_ms <= charged * busy_ms


def test_while_a_backend_only_fails_nobody_is_told_of_years() -> None:
    """Each failed attempt settles next to nothing: by that rate alone the queue would wait for millennia."""
    case, seen = started(), 0
    last = [submit(case, max_tokens=None, prompt_tokens=3_000) for _ in range(100)][-1]
    failure = Failure(kind=FailureKind.BACKEND_ERROR, backend_status=500)
    for _ in range(20):
        case.run(500)
        case.report()
        runs = case.commands(Run)
        for run in runs[seen:]:
            case.answer(run, Verdict.RETRY_AT, started=True, worker="w", failure=failure)
        seen = len(runs)
    assert seen > 4
    assert 0 < case.core.state.served.total < 1_000
    answer = asked(case, last.id)
    assert answer.position is not None
    assert answer.position > 50
    assert (answer.estimated_wait_ms, answer.estimated_wait_p95_ms) == (None, None)
