"""A worker that lies about tokens: an attempt counts no more than it can have spent, and an honest word is never cut."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.commands import Run
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.policy import CeilingPolicy, Policy
from headrace.contracts.values import MOST_TOKENS, Usage
from headrace.scheduler.core.counted import Counted
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.decisions.what_can_it_have_spent import (
    ANSWER_BESIDES,
    FASTEST,
    LONGEST_CONTEXT,
    PROMPT_BESIDES,
    Asked,
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
    st.none() | st.integers(0, 2**53),
    st.integers(0, 128),
    st.integers(0, 10**5),
)
contexts = st.none() | st.integers(1, 10**7)


@given(usages, contexts, st.none() | asked, st.none() | st.integers(0, 10**8))
def test_nothing_above_the_bound_counts_and_nothing_below_it_is_cut(
    usage: Usage, context: int | None, request: Asked | None, took_ms: int | None
) -> None:
    most = most_of(context, request, took_ms)
    cut = cut_to(usage, most)
    assert (cut.prompt_tokens, cut.completion_tokens) == (
        min(usage.prompt_tokens, most.prompt),
        min(usage.completion_tokens, most.answer),
    )
    assert cut.cached_tokens <= cut.prompt_tokens
    longest = LONGEST_CONTEXT if context is None else context
    choices = 1 if request is None else max(1, request.choices)
    assert most.prompt <= longest * choices
    assert most.answer <= longest * choices


@given(asked, st.integers(0, 10**6), st.data())
def test_an_honest_word_is_believed(request: Asked, took_ms: int, data: st.DataObject) -> None:
    """A token has a byte at least; no engine makes 10,000 a second; no choice has more than twice its cap, as engines go."""
    choices = max(1, request.choices)
    prompt = data.draw(st.integers(0, request.size + request.said + 4_096))
    longest = min(FASTEST * took_ms // 1_000, LONGEST_CONTEXT)
    if request.cap is not None:
        longest = min(longest, request.cap // choices)
    answer = choices * data.draw(st.integers(0, longest))
    usage = Usage(prompt_tokens=min(prompt, LONGEST_CONTEXT), completion_tokens=answer)
    assert cut_to(usage, most_of(None, request, took_ms)) == usage


@given(st.integers(1, 64), st.integers(1, 10**5), st.data())
def test_each_prompt_of_a_list_may_be_as_long_as_the_context(
    prompts: int, context: int, data: st.DataObject
) -> None:
    """A completion of many prompts is one attempt: its engine counts them together."""
    lengths = data.draw(st.lists(st.integers(1, context), min_size=prompts, max_size=prompts))
    usage = Usage(prompt_tokens=sum(lengths))
    assert cut_to(usage, most_of(context, Asked(4 * sum(lengths), None, prompts), 1_000)) == usage


def test_what_is_small_is_not_asked_about() -> None:
    assert is_small(Usage(prompt_tokens=PROMPT_BESIDES, completion_tokens=ANSWER_BESIDES))
    assert not is_small(Usage(prompt_tokens=PROMPT_BESIDES + 1))
    assert not is_small(Usage(completion_tokens=ANSWER_BESIDES + 1))


def with_a_ceiling(context: int | None = None) -> Policy:
    made = policy()
    pool = msgspec.structs.replace(made.pools[POOL], context_length=context)
    tenant = msgspec.structs.replace(made.tenants["a"], ceilings=(CeilingPolicy(tokens=PER_MINUTE),))
    return msgspec.structs.replace(made, pools={POOL: pool}, tenants={**made.tenants, "a": tenant})


def served(made: Policy) -> tuple[Case, Run]:
    case = Case(made)
    case.run()
    case.report(limit=4)
    case.run(100)
    case.submit(prompt_tokens=50, max_tokens=None)
    case.run(300)
    (run,) = case.commands(Run)
    return case, run


def state_of(case: Case) -> PoolState:
    assert case.owner.core is not None
    return case.owner.core.state


def closed_s(case: Case) -> float:
    state = state_of(case)
    return (state.ceilings.closed.get("a", state.now.boot_ms) - state.now.boot_ms) / 1_000


LIE = Usage(prompt_tokens=MOST_TOKENS, completion_tokens=MOST_TOKENS)


@pytest.mark.parametrize(("context", "longest_s"), [(None, 70), (8_192, 8)])
def test_an_attempt_that_lies_closes_a_tenant_for_a_minute_not_for_days(
    context: int | None, longest_s: int
) -> None:
    """Of 120,000 a minute: 65,538 for a short prompt, some 13,000 for the answer of a moment."""
    case, run = served(with_a_ceiling(context))
    before = state_of(case).accounts.of("batch", "a").settled
    case.answer(run, Verdict.DONE, status=Status.SUCCEEDED, usage=LIE, worker="w")
    case.run(25)
    assert 0 <= closed_s(case) <= longest_s
    spent = state_of(case).accounts.of("batch", "a").settled - before
    assert 0 < spent <= 200_000 * 2_000_000, "its counter moves by no more, either"


def test_a_report_that_lies_adds_what_can_be_in_its_time() -> None:
    case, run = served(with_a_ceiling())
    held = held_of(run, tokens=MOST_TOKENS)
    case.report(held=(held,))
    case.run(50)
    found = state_of(case).held.of(run.request.id)
    assert found is not None
    assert found.tokens <= 2 * FASTEST
    assert closed_s(case) < 10


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
