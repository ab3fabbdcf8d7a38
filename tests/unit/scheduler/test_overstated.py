"""A worker that lies about tokens: an attempt counts no more than it can have spent, and an honest word is never cut."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.commands import Run
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.policy import CeilingPolicy, CostWeights, Policy
from headrace.contracts.values import MOST_TOKENS, Usage
from headrace.scheduler.core.counted import Counted
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.decisions.estimate_cost import spent_cost
from headrace.scheduler.decisions.what_can_it_have_spent import (
    ANSWER_BESIDES,
    AT_ONCE,
    FASTEST,
    LONGEST_CONTEXT,
    MOST_SEQUENCES,
    PROMPT_BESIDES,
    Asked,
    Told,
    cut_to,
    is_small,
    most_of,
)
from tests.support.scheduler.case import Case
from tests.support.scheduler.pure import POOL, policy
from tests.support.scheduler.reports import held_of

PER_MINUTE = 120_000
tokens = st.integers(0, MOST_TOKENS)
usages = st.builds(Usage, prompt_tokens=tokens, cached_tokens=tokens, completion_tokens=tokens)
asked = st.builds(
    Asked,
    st.integers(0, 10**7),
    st.none() | st.integers(0, 4_096) | st.integers(0, 2**53),
    st.integers(0, 128),
    st.integers(0, 10**5),
    st.integers(0, 512),
    st.integers(0, 100),
)
told = st.builds(
    Told,
    st.none() | st.integers(1, LONGEST_CONTEXT),
    st.none() | st.integers(1, 10**6),
    st.none() | st.integers(0, 10**6),
)


@given(usages, told, st.none() | asked, st.none() | st.integers(0, 10**8))
def test_nothing_above_the_bound_counts_and_nothing_below_it_is_cut(
    usage: Usage, policy: Told, request: Asked | None, took_ms: int | None
) -> None:
    most = most_of(policy, request, took_ms)
    cut = cut_to(usage, most)
    assert (cut.prompt_tokens, cut.completion_tokens) == (
        min(usage.prompt_tokens, most.prompt),
        min(usage.completion_tokens, most.answer),
    )
    assert cut.cached_tokens <= cut.prompt_tokens
    longest = LONGEST_CONTEXT if policy.context is None else policy.context
    sequences = MOST_SEQUENCES if request is None else max(1, request.choices, request.sequences)
    assert most.prompt <= longest * sequences
    assert most.answer <= longest * sequences


class Engine:
    """An honest one. A token has a byte at least, but for what stands behind links; it puts a few thousand tokens before any
    prompt; it counts each sequence, its prompt too; what it thinks may count beside `max_tokens`; it makes 17,000 tokens a
    second at most, and has some answers in a cache.
    """

    def __init__(self, data: st.DataObject, context: int) -> None:
        self.draw, self.context = data.draw, context

    def prompt(self, request: Asked, media: list[int]) -> int:
        """Tokens of one sequence's prompt."""
        text = self.draw(st.integers(0, request.size + request.said + 8_192))
        return min(self.context, text + sum(media))

    def answer(self, request: Asked, thinks: int, took_ms: int) -> int:
        """Tokens of one sequence's answer."""
        longest = min(self.context, max(17_000 * took_ms // 1_000, self.draw(st.just(0) | st.just(AT_ONCE))))
        if request.cap is not None:
            longest = min(longest, -(-request.cap // max(1, request.choices)) + thinks)
        return self.draw(st.just(longest) | st.integers(0, longest))


@given(asked, st.integers(0, 10**6), st.integers(1, LONGEST_CONTEXT), st.data())
def test_an_honest_word_is_believed(request: Asked, took_ms: int, context: int, data: st.DataObject) -> None:
    """Whatever its operator has said of it that is true, and whoever released it."""
    engine, sequences = Engine(data, context), max(1, request.choices, request.sequences)
    media = [data.draw(st.integers(0, context)) for _ in range(min(3, request.media))]
    thinks = data.draw(st.integers(0, context))
    policy = Told(
        data.draw(st.sampled_from((None, context))),
        data.draw(st.sampled_from((None, max(media, default=0) or 1))),
        data.draw(st.sampled_from((None, thinks))),
    )
    usage = Usage(
        prompt_tokens=min(MOST_TOKENS, sequences * engine.prompt(request, media)),
        completion_tokens=min(MOST_TOKENS, sequences * engine.answer(request, thinks, took_ms)),
    )
    since_ms = data.draw(st.sampled_from((None, took_ms)))
    assert cut_to(usage, most_of(policy, request, since_ms)) == usage


@given(st.integers(1, MOST_SEQUENCES), st.integers(1, 65_536), st.data())
def test_an_honest_word_is_believed_before_its_request_is_read(
    sequences: int, context: int, data: st.DataObject
) -> None:
    most = sequences * data.draw(st.integers(0, context))
    usage = Usage(prompt_tokens=most, completion_tokens=most)
    assert cut_to(usage, most_of(Told(context), None, None)) == usage


@given(st.integers(1, 64), st.integers(1, 10**5), st.data())
def test_each_prompt_of_a_list_may_be_as_long_as_the_context(
    prompts: int, context: int, data: st.DataObject
) -> None:
    """A completion of many prompts is one attempt: its engine counts them together."""
    lengths = data.draw(st.lists(st.integers(1, context), min_size=prompts, max_size=prompts))
    usage = Usage(prompt_tokens=sum(lengths))
    assert cut_to(usage, most_of(Told(context), Asked(4 * sum(lengths), None, prompts), 1_000)) == usage


FIVE_IMAGES = Asked(size=900, cap=200, choices=1, media=5)


HONEST = (
    (Asked(200, cap=100, choices=1), Told(None, None, 0), Usage(prompt_tokens=8_392, completion_tokens=110)),
    (FIVE_IMAGES, Told(), Usage(prompt_tokens=82_020)),
    (FIVE_IMAGES, Told(131_072), Usage(prompt_tokens=82_020)),
    (FIVE_IMAGES, Told(131_072, media_tokens=16_384), Usage(prompt_tokens=82_020)),
    (Asked(200, cap=100, choices=1), Told(), Usage(completion_tokens=32_868)),
    (Asked(200, cap=100, choices=1), Told(131_072), Usage(completion_tokens=32_868)),
    (Asked(200, cap=100, choices=1), Told(None, None, 32_768), Usage(completion_tokens=32_868)),
    (Asked(200, cap=2_000, choices=1, sequences=20), Told(8_192, None, 0), Usage(completion_tokens=40_000)),
)


def test_large_images_thoughts_and_answers_to_choose_from_are_believed() -> None:
    for request, told_of_it, usage in HONEST:
        assert cut_to(usage, most_of(told_of_it, request, 20_000)) == usage, (request, told_of_it)


@pytest.mark.parametrize(
    ("request_", "policy", "most"),
    [
        (Asked(900, 200, 1), Told(), (66_436, AT_ONCE + 20 * FASTEST)),
        (Asked(900, 200, 1), Told(8_192), (8_192, 8_192)),
        (Asked(900, 200, 1), Told(None, None, 0), (66_436, 1_224)),
        (FIVE_IMAGES, Told(None, 2_000, 4_000), (76_436, 5_224)),
        (FIVE_IMAGES, Told(), (LONGEST_CONTEXT, AT_ONCE + 20 * FASTEST)),
        (Asked(900, 400, 2, sequences=6), Told(8_192, None, 0), (6 * 8_192, 6 * 1_224)),
        (None, Told(8_192), (MOST_SEQUENCES * 8_192, MOST_SEQUENCES * 8_192)),
        (None, Told(), (LONGEST_CONTEXT, LONGEST_CONTEXT)),
    ],
)
def test_a_lie_counts_no_more_than(request_: Asked | None, policy: Told, most: tuple[int, int]) -> None:
    lie = Usage(prompt_tokens=MOST_TOKENS, completion_tokens=MOST_TOKENS)
    cut = cut_to(lie, most_of(policy, request_, 20_000))
    assert (cut.prompt_tokens, cut.completion_tokens) == most


def test_what_is_small_is_not_asked_about() -> None:
    assert is_small(Usage(prompt_tokens=PROMPT_BESIDES, completion_tokens=ANSWER_BESIDES))
    assert not is_small(Usage(prompt_tokens=PROMPT_BESIDES + 1))
    assert not is_small(Usage(completion_tokens=ANSWER_BESIDES + 1))


def with_a_ceiling(context: int | None = None) -> Policy:
    made = policy()
    pool = msgspec.structs.replace(made.pools[POOL], context_length=context)
    tenant = msgspec.structs.replace(made.tenants["a"], ceilings=(CeilingPolicy(tokens=PER_MINUTE),))
    return msgspec.structs.replace(made, pools={POOL: pool}, tenants={**made.tenants, "a": tenant})


def served(made: Policy, **asked_for: Any) -> tuple[Case, Run]:
    case = Case(made)
    case.run()
    case.report(limit=4)
    case.run(100)
    case.submit(**{"prompt_tokens": 50, "max_tokens": None, **asked_for})
    case.run(300)
    (run,) = case.commands(Run)
    return case, run


def state_of(case: Case) -> PoolState:
    assert case.owner.core is not None
    return case.owner.core.state


def closed_s(case: Case) -> float:
    state = state_of(case)
    return (state.ceilings.closed.get("a", state.now.boot_ms) - state.now.boot_ms) / 1_000


@pytest.mark.parametrize(
    ("asked_for", "usage"),
    [
        ({"media": 5}, Usage(prompt_tokens=82_020, completion_tokens=9)),
        ({"max_tokens": 100}, Usage(prompt_tokens=60, completion_tokens=32_868)),
        ({"max_tokens": 2_000, "sequences": 20}, Usage(prompt_tokens=60, completion_tokens=40_000)),
    ],
)
def test_what_an_honest_engine_spent_is_settled_whole(asked_for: dict[str, Any], usage: Usage) -> None:
    case, run = served(with_a_ceiling(131_072), **asked_for)
    before = state_of(case).accounts.of("batch", "a").settled
    case.answer(run, Verdict.DONE, status=Status.SUCCEEDED, usage=usage, worker="w")
    case.run(25)
    cost = spent_cost(usage, CostWeights())
    assert state_of(case).accounts.of("batch", "a").settled - before == pytest.approx(cost, abs=1)


LIE = Usage(prompt_tokens=MOST_TOKENS, completion_tokens=MOST_TOKENS)


@pytest.mark.parametrize(("context", "longest_s"), [(None, 120), (8_192, 8)])
def test_an_attempt_that_lies_closes_a_tenant_for_two_minutes_not_for_days(
    context: int | None, longest_s: int
) -> None:
    """Of 120,000 a minute: 65,538 for a short prompt, some 150,000 for the answer of a moment."""
    case, run = served(with_a_ceiling(context))
    before = state_of(case).accounts.of("batch", "a").settled
    case.answer(run, Verdict.DONE, status=Status.SUCCEEDED, usage=LIE, worker="w")
    case.run(25)
    assert 0 <= closed_s(case) <= longest_s
    spent = state_of(case).accounts.of("batch", "a").settled - before
    assert 0 < spent <= 400_000 * 1_000_000, "its counter moves by no more, either"


def test_a_report_that_lies_adds_what_can_be_in_its_time() -> None:
    case, run = served(with_a_ceiling())
    held = held_of(run, tokens=MOST_TOKENS)
    case.report(held=(held,))
    case.run(50)
    found = state_of(case).held.of(run.request.id)
    assert found is not None
    assert found.tokens <= AT_ONCE + FASTEST
    assert closed_s(case) < 90


@pytest.mark.interpreted
def test_a_lie_is_counted() -> None:
    case, run = served(with_a_ceiling())
    counted: list[int] = []
    core = case.owner.core
    assert core is not None
    step = core.step

    def watched(*given_: object) -> object:
        out = step(*given_)  # type: ignore[arg-type]
        counted.append(out.counts.get(Counted.OVERSTATED, 0))
        return out

    core.step = watched  # type: ignore[method-assign, assignment]
    case.answer(run, Verdict.DONE, status=Status.SUCCEEDED, usage=LIE, worker="w")
    case.run(100)
    assert sum(counted) == 1
