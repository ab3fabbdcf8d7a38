"""Caches in simulations: which prompts begin alike, what a backend finds of one, and what its figures say of it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.policy import policy_from
from headrace.contracts.prefixes import BLOCK_TOKENS, hashes_of
from headrace.scheduler.simulate.backend import Backend, BackendModel, BlockCache
from headrace.scheduler.simulate.baselines import IN_TURN
from headrace.scheduler.simulate.comparing import HEADRACE, Course, compare, contenders
from headrace.scheduler.simulate.jobs import Job
from headrace.scheduler.simulate.records import _prefix_of
from headrace.scheduler.simulate.scenario import Scenario, draw
from headrace.scheduler.simulate.trace import TraceError, read_trace
from tests.support.scheduler.simulated_jobs import talks

HEAD = "t_s,input_tokens,output_tokens,prefix_blocks,prefix_blocks_seen,prefix_of"
MODEL = BackendModel(slots=8, prefill_per_s=10_000, token_us=1_000, cache_blocks=400, prompts_in_turn=True)
POLICY = policy_from({"pools": {"main": {"models": {"m": "m"}}}, "tenants": {f"t{n}": {} for n in range(4)}})


def job(number: int, blocks: tuple[int, ...], **more: Any) -> Job:
    shared: dict[str, Any] = {
        "at_ms": 0,
        "tenant": "t0",
        "tier": "standard",
        "cached_tokens": 0,
        "output_tokens": 1,
    }
    return Job(number=number, input_tokens=len(blocks) * BLOCK_TOKENS, blocks=blocks, **{**shared, **more})


def test_a_trace_tells_which_prompts_begin_alike() -> None:
    lines = ["0,5000,1,10,0,", "1,7000,1,14,10,0", "2,6000,1,12,1,0", "3,9000,1,18,14,1"]
    first, second, other, third = read_trace([HEAD, *lines], "t")
    assert second.blocks[:10] == first.blocks
    assert third.blocks[:14] == second.blocks
    assert other.blocks[:1] == first.blocks[:1]
    everything = {block for asked in (first, second, other, third) for block in asked.blocks}
    assert len(everything) == 10 + 4 + 11 + 4
    assert first.conversation == second.conversation == third.conversation != other.conversation


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("1,5000,1,10,11,0", "prefix_blocks_seen is 11"),
        ("1,9000,1,18,12,0", "row 0 hasn't 12 blocks"),
        ("1,9000,1,18,2,7", "prefix_of is 7"),
        ("1,9000,1,18,2,x", "prefix_of is 'x'"),
    ],
)
def test_a_trace_that_contradicts_itself_is_refused(row: str, sentence: str) -> None:
    with pytest.raises(TraceError) as caught:
        read_trace([HEAD, "0,5000,1,10,0,", row], "t")
    assert sentence in caught.value.sentences[0]


def test_a_conversation_is_one_tenants() -> None:
    jobs = draw(talks(12, 5), Scenario(), POLICY, [MODEL], seed=3)
    whose = {job.blocks[0]: set[str]() for job in jobs}
    for each in jobs:
        whose[each.blocks[0]].add(each.tenant)
    assert all(len(tenants) == 1 for tenants in whose.values())
    assert len(set.union(*whose.values())) > 1


@given(
    st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=6, unique=True), max_size=20), st.integers(0, 8)
)
def test_a_cache_never_holds_more_than_it_has_room_for_and_finds_beginnings_alone(
    prompts: list[list[int]], size: int
) -> None:
    cache, seen = BlockCache(size), set[int]()
    for blocks in prompts:
        found = cache.use(blocks)
        assert set(blocks[:found]) <= seen
        assert found <= size
        seen.update(blocks)
        assert cache.use(blocks) == (len(blocks) if len(blocks) <= size else 0) or size < len(blocks)


def test_a_backend_computes_one_prompt_after_the_other_and_only_what_its_cache_has_not() -> None:
    backend = Backend(MODEL)
    first, second = job(1, tuple(range(10))), job(2, tuple(range(15)))
    backend.start(first, 0)
    backend.start(second, 0)
    assert (first.cached_tokens, second.cached_tokens) == (0, 10 * BLOCK_TOKENS)
    firsts = [backend.running[each].first_ms for each in (first, second)]
    assert firsts == [512, 512 + 256]


def test_records_tell_a_tenants_beginnings_and_no_two_tenants_have_one_in_common() -> None:
    mine, longer, theirs = (
        hashes_of(_prefix_of(job(1, tuple(range(size)), tenant=tenant)))
        for size, tenant in ((6, "t0"), (9, "t0"), (9, "t1"))
    )
    assert longer[: len(mine)] == mine
    assert not set(longer) & set(theirs)


def test_the_product_finds_what_backends_in_turn_forget_and_its_tokens_show_it() -> None:
    course = Course(talks(15, 8), Scenario(load=3.0), POLICY, "main", [MODEL] * 4, warm_ms=0)
    known = contenders(POLICY, "main")
    [ours], [theirs] = compare(course, {name: known[name] for name in (HEADRACE, IN_TURN)}, [0]).values()
    assert ours.hits is not None
    assert theirs.hits is not None
    assert ours.hits > 0.9 > theirs.hits + 0.3
    assert ours.tokens > 1.2 * theirs.tokens
    assert ours.promised_gap is not None
    assert ours.gap <= ours.promised_gap
