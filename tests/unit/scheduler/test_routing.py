"""What the owner of a pool does with hints: a request goes where its prompt is, as far as loads and turns allow."""

from heapq import heapify

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.contracts.policy import policy_from
from headrace.scheduler.core.holding import Holding
from headrace.scheduler.decisions import who_may_pass
from headrace.scheduler.decisions.how_long_to_wait_for_a_cache import LONGEST, waits_ms
from headrace.scheduler.decisions.who_may_pass import MOST_PASSED
from headrace.scheduler.state.cached_prefixes import CachedPrefixes
from headrace.scheduler.state.in_order import in_order
from headrace.scheduler.state.tracked import Phase
from tests.support.scheduler.pure import POOL, WALL
from tests.support.scheduler.queue_alone import ONE_TIER, queue_of, request
from tests.support.scheduler.two_caches import BLOCK_TOKENS, BOOTS, HOUR, Case, prefix


def caches_of(case: Case) -> CachedPrefixes:
    """What the owner believes."""
    assert case.owner.core is not None
    return case.owner.core.state.workers.caches


def test_who_goes_on_with_a_prompt_is_sent_to_where_its_beginning_is() -> None:
    case = Case()
    homes = {talk: case.sent(prefix=prefix(talk)) for talk in ("a", "b")}
    assert set(homes.values()) == set(BOOTS), "what nobody knows goes to the least loaded"
    for talk in ("b", "a", "a", "b"):
        assert case.sent(prefix=prefix(talk, f"{talk}2")) == homes[talk]


def test_without_hints_the_least_loaded_is_chosen_whatever_caches_hold() -> None:
    case = Case()
    warm = case.sent(prefix=prefix("a"))
    assert {case.sent(), case.sent()} == set(BOOTS) - {warm} | {warm}
    assert [len(case.of(name)) for name in BOOTS].count(1) == 1


def test_a_hint_loads_no_backend_beyond_its_bound() -> None:
    case = Case(limit=16)
    places = [case.sent(prefix=prefix("a")) for _ in range(12)]
    assert places[:4] == [places[0]] * 4, "a quarter of its limit is always free to it"
    most = max(places.count(name) for name in BOOTS)
    assert 4 * most <= 5 * len(places) // 2 + 4, "then 5/4 of its part"


def test_a_session_stays_where_it_ran_and_finds_its_home_again_under_another_owner() -> None:
    case, other = Case(limit=64), Case(limit=64)
    homes = {name: case.sent(session=name) for name in ("one", "two", "three", "four")}
    assert {name: case.sent(session=name) for name in homes} == homes
    assert {name: other.sent(session=name) for name in reversed(homes)} == homes, (
        "by a hash, not by what was first"
    )


def test_a_dead_boot_has_no_cache() -> None:
    case = Case()
    home = case.sent(prefix=prefix("a"))
    [other] = set(BOOTS) - {home}
    caches = caches_of(case)
    assert list(caches.who_has(prefix("a"))) == [BOOTS[home]]
    for _ in range(12):
        case.tell(other)
        case.run(500)
    assert BOOTS[home] not in caches.who_has(prefix("a"))


def test_an_engine_that_computed_it_anew_had_dropped_all_that_is_older() -> None:
    case, size = Case(limit=16), 2 * BLOCK_TOKENS
    home = case.sent(prefix=prefix("both", "old"), prompt_tokens=size)
    caches, boot = caches_of(case), BOOTS[home]
    assert case.sent(prefix=prefix("both", "new"), prompt_tokens=size) == home
    assert case.sent(prefix=prefix("both", "new"), prompt_tokens=size) == home
    case.end(case.of(home)[-1], cached=size)
    case.run(100)
    assert boot in caches.who_has(prefix("old")), "it was right so far"
    assert case.sent(prefix=prefix("both", "new"), prompt_tokens=size) == home
    case.end(case.of(home)[-1], cached=0)
    case.run(100)
    assert boot not in caches.who_has(prefix("old"))
    assert boot in caches.who_has(prefix("new")), "it is there now, since it was computed"


def fill(case: Case) -> dict[str, str]:
    """Two conversations, and slots that are all taken; where each conversation is."""
    homes = {talk: case.sent(prefix=prefix(talk, talk + "2", talk + "3", talk + "4")) for talk in "ab"}
    for _ in range(2 * case.limit - 2):
        assert case.sent()
    return homes


@pytest.mark.parametrize("freed", ["a", "b"])
def test_of_a_tenants_requests_that_come_near_each_other_the_one_goes_whose_prompt_is_there(
    freed: str,
) -> None:
    case = Case(limit=2)
    homes = fill(case)
    waiting = {talk: case.submit(prefix=prefix(talk, talk + "2", talk + "5"), **HOUR) for talk in "ab"}
    case.run(50)
    case.end(case.of(homes[freed])[-1])
    case.run(50)
    assert case.where(waiting[freed].id) == homes[freed]
    [other] = set("ab") - {freed}
    assert not case.where(waiting[other].id)


def test_the_first_is_passed_so_often_and_then_goes_wherever_there_is_room() -> None:
    case = Case(limit=2)
    homes = fill(case)
    first = case.submit(prefix=prefix("a", "a2", "a5"), **HOUR)
    others = [case.submit(prefix=prefix("b", "b2", f"b{number}"), **HOUR) for number in range(30)]
    for _ in range(4 * len(others)):
        if case.where(first.id):
            break
        for run in case.of(homes["b"])[:1]:
            case.end(run)
        case.run(25)
    passed = sum(bool(case.where(other.id)) for other in others)
    assert case.where(first.id) == homes["b"]
    assert 1 < passed <= MOST_PASSED + 1, "so often, and once more in the slot beside"


def test_nobody_passes_a_deadline_or_what_came_long_before() -> None:
    for more in ({"finish_by_ms": WALL + 600_000}, {"priority": 1}, {"start_by_ms": WALL + 3_500_000}):
        case = Case(limit=2)
        homes = fill(case)
        first = case.submit(**{**HOUR, "prefix": prefix("a", "a5"), **more})
        case.submit(prefix=prefix("b", "b2", "b5"), **HOUR)
        case.run(50)
        case.end(case.of(homes["b"])[-1])
        case.run(1_200)
        assert case.where(first.id) == homes["b"], more


@pytest.mark.interpreted
def test_nobody_passes_who_fits_no_cache() -> None:
    """Or it would wait for as long as lesser ones come."""
    case = Case(limit=2)
    homes = fill(case)
    first = case.submit(prefix=prefix("a", "a5"), **HOUR)
    other = case.submit(prefix=prefix("b", "b2", "b5"), **HOUR)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Holding, "fits", lambda _self, tracked, _worker: tracked.id != first.id)
        case.run(50)
        case.end(case.of(homes["b"])[-1])
        case.run(200)
        assert not case.where(other.id)
    case.run(200)
    assert case.where(other.id) == homes["b"], "where the first fits, it may"


def test_a_request_waits_a_moment_for_the_one_backend_that_has_its_prompt() -> None:
    case = Case(limit=2)
    homes = fill(case)
    waiting = case.submit(prefix=prefix(*(f"a{n or ''}" for n in (0, 2, 3, 4))), prompt_tokens=9_000, **HOUR)
    case.end(case.of(homes["b"])[-1])
    case.run(25)
    assert not case.where(waiting.id), "there is room, but not where its prompt is"
    case.end(case.of(homes["a"])[-1])
    case.run(50)
    assert case.where(waiting.id) == homes["a"]


def test_it_waits_no_longer_than_its_prompt_would_take_and_goes_where_there_is_room() -> None:
    case = Case(limit=2)
    homes = fill(case)
    waiting = case.submit(prefix=prefix("a", "a2", "a3", "a4"), prompt_tokens=9_000, **HOUR)
    case.end(case.of(homes["b"])[-1])
    case.run(1_200)
    assert case.where(waiting.id) == homes["b"]


@given(st.integers(0, 300), st.one_of(st.none(), st.integers(0, 10**6)), st.booleans())
def test_waiting_takes_no_longer_than_computing_and_costs_no_other_tier_its_turn(
    lost: int, prompt_us: int | None, alone: bool
) -> None:
    waits = waits_ms(lost, prompt_us, alone=alone)
    assert 0 <= waits <= LONGEST.total_seconds() * 1_000
    if prompt_us:
        assert waits * 1_000 <= lost * BLOCK_TOKENS * prompt_us
    assert alone or not waits


CHARGES = st.lists(
    st.tuples(st.sampled_from("abcd"), st.integers(1, 100), st.integers(0, 7)), min_size=1, max_size=60
)


@settings(deadline=None)
@given(CHARGES, st.dictionaries(st.sampled_from("abcd"), st.integers(1, 4)))
def test_whoever_goes_before_another_counters_never_differ_by_more_than_the_largest_charge(
    charges: list[tuple[str, int, int]], weights: dict[str, int]
) -> None:
    """Among those who wait, whichever of those who may go the caches choose; charges are right, so nothing is settled."""
    accounts, queue = queue_of(ONE_TIER, weights)
    for number, (tenant, cost, _) in enumerate(charges):
        queue.put(request(number, tenant, "t", cost))
    largest = 0
    for _, _, choice in charges:
        first = queue.next(10**6)
        assert first is not None
        least = accounts.of("t", first.record.tenant).value
        may = [first]
        for other in queue.next_tenants(first, 10**6, 8):
            own = accounts.of("t", other.record.tenant)
            step = -(-other.charge // weights.get(other.record.tenant, 1))
            if who_may_pass.may_go_before(own.value, step, least=least, largest=largest):
                may.append(other)
        chosen = may[choice % len(may)]
        weight = weights.get(chosen.record.tenant, 1)
        queue.take(chosen, Phase.HELD)
        accounts.dispatch("t", chosen.record.tenant, chosen.charge)
        largest = max(largest, -(-chosen.charge // weight))
        counters = [accounts.of("t", tenant).value for tenant in queue.backlogged()["t"]]
        assert max(counters, default=0) - min(counters, default=0) <= largest


@given(st.lists(st.integers()))
def test_a_heap_is_walked_in_order_and_left_as_it_is(numbers: list[int]) -> None:
    heap = [(number, place) for place, number in enumerate(numbers)]
    heapify(heap)
    before = list(heap)
    assert list(in_order(heap)) == sorted(heap)
    assert heap == before


def test_in_a_pool_of_several_models_each_runs_where_it_ran_and_the_most_used_spreads_by_load() -> None:
    policy = policy_from({
        "pools": {POOL: {"models": {"base": "base", "lora": "lora"}}},
        "tiers": {"batch": {"weight": 1, "queue_timeout": "24h"}},
        "tenants": {"a": {"default_tier": "batch"}},
        "topics": {"tenant_partitions": 2, "lanes": 3, "gateways": 1},
    })  # fmt: skip
    case = Case(limit=16, policy=policy)
    homes = {model: case.sent(model=model) for model in ("base", "lora")}
    for model in ("lora", "base", "lora", "base"):
        assert case.sent(model=model) == homes[model]
    assert {case.sent(model="base") for _ in range(20)} == set(BOOTS)
