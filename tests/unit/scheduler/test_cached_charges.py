"""What a prompt is charged of which a cache probably has a part: as much as engines found of others, whatever hints say."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.bus.messages import Message
from headrace.contracts.commands import Run
from headrace.contracts.ids import AttemptId
from headrace.contracts.policy import CostWeights, policy_from
from headrace.contracts.prefixes import BLOCK_TOKENS, hashes_of
from headrace.contracts.reports import Held
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import MOST_TOKENS, Origin
from headrace.scheduler.decisions import how_far_back_a_cache_reaches, how_much_is_cached
from headrace.scheduler.decisions.estimate_cost import raised_charge
from headrace.scheduler.decisions.how_far_back_a_cache_reaches import reaches
from headrace.scheduler.decisions.how_much_is_cached import NEEDED, Share
from headrace.scheduler.simulate.backend import BackendModel
from headrace.scheduler.simulate.comparing import HEADRACE, Course, compare, contenders
from headrace.scheduler.simulate.scenario import Scenario
from headrace.scheduler.state.cached_prefixes import CachedPrefixes
from headrace.scheduler.state.cached_shares import CachedShares
from tests.support.scheduler import case as by_hand
from tests.support.scheduler.pure import place
from tests.support.scheduler.simulated_jobs import talks
from tests.support.scheduler.two_caches import BOOTS, HOUR, Case, prefix

TOKENS = st.integers(0, 200_000)
PROMPT = 8 * BLOCK_TOKENS
WARM: dict[str, Any] = {
    "prefix": prefix("a", "b", "c", "d", "e", "f"),
    "prompt_tokens": PROMPT,
    "max_tokens": 0,
    **HOUR,
}


def cost_of(run: Run) -> int:
    """Service units of its prompt; it wants no answer."""
    return run.charge // CostWeights().prompt


def served(case: Case, count: int, *, cached: int, **more: Any) -> list[Run]:
    """So many requests, one after the other, of which the engine says that it found so many tokens."""
    found = []
    for _ in range(count):
        case.sent(**{**WARM, **more})
        [run] = [run for name in BOOTS for run in case.of(name)]
        found.append(run)
        case.end(run, cached=cached, prompt=PROMPT)
        case.run(50)
        case.tell()
    return found


@given(TOKENS, TOKENS, st.builds(Share, st.integers(0, 100), TOKENS, TOKENS))
def test_no_more_is_expected_in_a_cache_than_the_prompt_has_and_engines_have_found(
    prompt: int, believed: int, share: Share
) -> None:
    cached = how_much_is_cached.cached_of(prompt, believed, share)
    assert 0 <= cached <= min(prompt, share.cached)
    if share.attempts < NEEDED:
        assert not cached
    elif share.tokens:
        assert cached * share.tokens <= believed * share.cached, "a hint counts as far as such were true"


@given(TOKENS, TOKENS, TOKENS, st.builds(Share, st.integers(NEEDED, 100), TOKENS, TOKENS))
def test_who_is_believed_to_have_more_there_is_expected_to_have_no_less(
    prompt: int, believed: int, more: int, share: Share
) -> None:
    less = how_much_is_cached.cached_of(prompt, believed, share)
    assert less <= how_much_is_cached.cached_of(prompt, believed + more, share)


@given(st.lists(st.tuples(st.integers(1, 10_000), st.integers(0, 1_000)), max_size=300))
def test_what_is_remembered_of_a_tenant_lies_within_what_its_engines_said(
    prompts: list[tuple[int, int]],
) -> None:
    shares = CachedShares()
    for prompt, permille in prompts:
        shares.learn("t", "m", prompt=prompt, believed=0, cached=prompt * permille // 1_000)
    known = shares.of("t", "m")
    if known is not None and known.cold.tokens:
        assert known.cold == known.all_of_them
        assert known.cold.attempts < 64
        most = max(permille for _, permille in prompts)
        assert known.cold.cached * 1_000 <= (most + 1) * known.cold.tokens
    assert shares.of("t", "other") is shares.of("other", "m") is None


def test_no_more_tenants_are_kept_than_allowed_and_who_has_no_cached_tokens_takes_no_room() -> None:
    shares = CachedShares(most=10)
    for number in range(100):
        shares.learn(f"t{number}", "m", prompt=10, believed=0, cached=number % 2)
    assert len(shares) == 10
    assert shares.of("t99", "m")
    assert shares.of("t1", "m") is None


@given(TOKENS, TOKENS, TOKENS, st.integers(0, 10**9))
def test_a_charge_isnt_raised_for_what_may_have_been_cached(
    prompt: int, tokens: int, cached: int, charge: int
) -> None:
    weights = CostWeights()
    raised = raised_charge(charge, tokens, prompt, weights, cached=cached)
    assert charge <= raised <= raised_charge(charge, tokens, prompt, weights)
    assert raised >= raised_charge(charge, tokens, prompt, weights, cached=MOST_TOKENS)


def test_a_warm_prompt_is_charged_what_engines_found_and_a_cold_backend_the_whole() -> None:
    case = Case()
    first = served(case, NEEDED + 1, cached=PROMPT - BLOCK_TOKENS)
    assert {cost_of(run) for run in first} == {PROMPT}, "nothing is believed before it was seen often enough"
    [warm] = served(case, 1, cached=PROMPT)
    assert cost_of(warm) == BLOCK_TOKENS + (PROMPT - BLOCK_TOKENS) // 10
    [cold] = served(case, 1, cached=0, prefix=prefix("x", "y"))
    assert cost_of(cold) == PROMPT


def test_hints_lower_no_charge_where_the_engine_finds_nothing() -> None:
    case = Case()
    assert {cost_of(run) for run in served(case, 4 * NEEDED, cached=0)} == {PROMPT}


def test_who_begins_to_lie_is_charged_the_whole_again() -> None:
    case = Case()
    served(case, 2 * NEEDED, cached=PROMPT)
    first, *others = (cost_of(run) for run in served(case, 10, cached=0))
    assert first < PROMPT // 8 < PROMPT * 3 // 4 < min(others)


def test_an_engine_that_finds_nothing_any_more_is_heard() -> None:
    case = Case()
    served(case, 2 * NEEDED, cached=PROMPT, prefix="")
    charges = [cost_of(run) for run in served(case, 50, cached=0, prefix="")]
    assert charges == sorted(charges)
    assert charges[0] < PROMPT // 8 < PROMPT * 3 // 4 < charges[-1]


AGES = st.integers(0, 10**7)


@given(AGES, st.lists(AGES, min_size=200, max_size=200), st.none() | AGES)
def test_how_far_back_a_cache_reaches_is_found_whatever_was_thought_before(
    size: int, ages: list[int], reach: int | None
) -> None:
    """After that no age is judged wrongly but those between what is thought and what is so, and these come closer."""
    far = None if reach is None else abs(reach - size)
    for age in ages:
        before, reach = reach, how_far_back_a_cache_reaches.reach_after(reach, age, found=age <= size)
        if reaches(before, age) == (age <= size):
            assert reach == before, "what fits teaches nothing"
        elif reach is not None and before is not None:
            assert min(before, age - 1) <= reach <= max(before, age)
            assert reach != before
    if far is not None:
        assert reach is not None
        assert abs(reach - size) <= max(1, far)
    if reach is not None and len({age > size for age in ages}) == 2:
        below = max(age for age in ages if age <= size)
        above = min(age for age in ages if age > size)
        for _ in range(200):
            for age in (below, above):
                reach = how_far_back_a_cache_reaches.reach_after(reach, age, found=age <= size)
        assert reach is not None
        assert below <= reach < above


def test_what_the_cache_doesnt_reach_back_to_is_charged_whole() -> None:
    """A cache of so few prompts that those of a long while ago have gone: its engine tells so twice."""
    case = Case(limit=16)
    served(case, 2 * NEEDED, cached=PROMPT)

    charges = []
    for number, tokens in enumerate((10**6, 2 * 10**6, 3 * 10**6)):
        for name in "xyz":
            served(case, 1, cached=0, prefix=prefix(f"{name}{number}"), prompt_tokens=tokens, tenant="b")
        [late], [again] = served(case, 1, cached=0), served(case, 1, cached=PROMPT)
        charges.append((cost_of(late), cost_of(again)))
    assert charges[0][0] < PROMPT // 2, "nobody knows yet how far it reaches"
    assert charges[-1][0] > PROMPT // 2 > charges[-1][1], "what was used just now is there all the same"


def test_one_tenants_caches_lower_no_others_charge() -> None:
    case = Case()
    served(case, 2 * NEEDED, cached=PROMPT)
    others = served(case, 3, cached=0, tenant="b")
    assert {cost_of(run) for run in others} == {PROMPT}


def test_without_hints_a_prompt_is_charged_by_what_was_found_of_such() -> None:
    case = Case()
    served(case, NEEDED, cached=PROMPT // 2, prefix="")
    [run] = served(case, 1, cached=PROMPT // 2, prefix="")
    assert cost_of(run) == PROMPT // 2 + PROMPT // 20


def test_what_another_owner_charged_isnt_raised_before_more_is_spent_than_that() -> None:
    case = by_hand.Case()
    case.report(limit=0)
    case.run()
    record = case.submit(**WARM)
    case.run()
    origin = Origin(place(TopicKind.REQUESTS, record.partition, "batch").topic, record.partition, 0)
    charge = PROMPT * CostWeights().cached
    for tokens in (0, 0, 1, 1_000):
        held = Held(attempt=AttemptId(0, 1), id=record.id, tenant="a", tier="batch", origin=origin, attempts=1,
                    charge=charge, tokens=tokens, running=True)  # fmt: skip
        case.report(limit=0, held=(held,))
        case.run(200)
        assert case.owner.core is not None
        known = case.owner.core.state.held.of(record.id)
        assert known is not None
        assert known.charge == charge + tokens * CostWeights().completion


def test_a_new_owner_knows_where_the_prompts_are_that_run() -> None:
    """Told by a worker's report, before or after the request itself is read."""
    for report_first in (False, True):
        caches = caches_of_a_new_owner(report_first=report_first)
        assert list(caches.who_has("session/s")) == [by_hand.BOOT]
        assert caches.blocks_of(hashes_of(WARM["prefix"])) == {by_hand.BOOT: 8}


def test_a_new_owner_learns_what_a_worker_ran_before_and_from_then_on_knows_better() -> None:
    case, before = by_hand.Case(), (prefix("a", "b"), prefix("x"), "")
    case.report(limit=1, ran=before)
    case.run()
    assert case.owner.core is not None
    caches = case.owner.core.state.workers.caches
    assert caches.blocks_of(hashes_of(before[0])) == {by_hand.BOOT: 2}
    assert caches.age(by_hand.BOOT, caches.since(by_hand.BOOT, hashes_of(before[1])[0])) == 0, "the latest"
    case.report(limit=1, ran=(prefix("late"),))
    case.run()
    assert not caches.blocks_of(hashes_of(prefix("late")))


def caches_of_a_new_owner(*, report_first: bool) -> CachedPrefixes:
    """What it believes once it knows of one request that runs."""
    case, other = by_hand.Case(), by_hand.Case()
    case.report(limit=0)
    case.run()
    other.run()
    record = other.submit(session="s", **WARM)
    there = place(TopicKind.REQUESTS, record.partition, "batch")
    [written] = other.world.logs[there]
    origin = Origin(there.topic, there.partition, 0)
    held = Held(attempt=AttemptId(0, 1), id=record.id, tenant="a", tier="batch", origin=origin, attempts=1)
    for is_report in (report_first, not report_first):
        if is_report:
            case.report(limit=0, held=(held,))
        else:
            case.world.append(Message(there.topic, there.partition, written.value, written.headers))
        case.run()
    assert case.owner.core is not None
    return case.owner.core.state.workers.caches


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 400), st.integers(1, 12))
def test_tenants_stay_within_the_bound_however_much_engines_forget(
    seed: int, blocks: int, turns: int
) -> None:
    """Small caches drop what was believed to be there, so charges are too low as often as too high."""
    policy = policy_from(
        {"pools": {"main": {"models": {"m": "m"}}}, "tenants": {f"t{n}": {} for n in range(4)}}
    )
    model = BackendModel(
        slots=2, prefill_per_s=10_000, token_us=1_000, cache_blocks=blocks, prompts_in_turn=True
    )
    course = Course(talks(12, turns), Scenario(load=2.0), policy, "main", [model] * 2)
    [run] = compare(course, {HEADRACE: contenders(policy, "main")[HEADRACE]}, [seed])[HEADRACE]
    assert run.promised_gap is not None
    assert run.gap <= run.promised_gap
