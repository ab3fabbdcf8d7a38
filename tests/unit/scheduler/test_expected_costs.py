"""What a request is charged before its answer is known, and what an attempt is settled on."""

from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.contracts.policy import CostWeights
from headrace.contracts.requests import RequestRecord
from headrace.contracts.values import Payload, Usage
from headrace.scheduler.decisions.estimate_cost import (
    Length,
    capped,
    expected_cost,
    is_told,
    raised_charge,
    rest_of,
    spent_cost,
)
from headrace.scheduler.decisions.whose_answers_are_alike import Alike, alike
from headrace.scheduler.state.answer_lengths import NEEDED, AnswerLengths

WALL = 1_700_000_000_000
WEIGHTS = CostWeights(prompt=10, cached=1, completion=20)


def record(cap: int | None = None, choices: int = 1, **more: object) -> RequestRecord:
    fields: dict[str, object] = {"tenant": "a", "model": "m", "prompt_tokens": 3, **more}
    return RequestRecord(
        id="r", pool="p", tier="t", partition=0, route="/", accepted_ms=WALL, payload=Payload(size=0), gateway=0,
        max_tokens=cap, choices=choices, **fields,  # type: ignore[arg-type]
    )  # fmt: skip


SORT = Alike("a", "m", "plain", 0)


def learnt(lengths: AnswerLengths, answers: Iterable[int], **like: str) -> Length:
    sort = Alike(**{"tenant": "a", "model": "m", "kind": "plain", "cap": 0, **like})  # type: ignore[arg-type]
    for tokens in answers:
        lengths.learn(sort, tokens)
    return lengths.of(sort)


def test_a_charge_is_the_prompt_and_the_mean_answer_within_the_cap_for_each_choice() -> None:
    def cost(cap: int | None, choices: int = 1, **more: object) -> int:
        return expected_cost(record(cap, choices, **more), 5, WEIGHTS)

    assert [cost(None), cost(2), cost(100)] == [130, 70, 130]
    assert [cost(None, 3), cost(6, 3), cost(4, 3)] == [330, 150, 150], "a cap is over all choices"
    assert cost(0, prompt_tokens=0) == 1, "nothing is free"


@given(
    st.integers(1, 5_000), st.integers(0, 5_000), st.integers(0, 20_000), st.none() | st.integers(1, 20_000)
)
def test_of_an_answer_that_is_half_said_only_the_rest_is_expected(
    mean: int, more: int, said: int, cap: int | None
) -> None:
    length = Length(mean, mean + more)
    rest, whole = rest_of(length, said, cap), capped(length, cap)
    assert rest.mean <= rest.most
    if not said:
        assert rest == whole
    if cap is not None:
        assert rest.most <= max(0, cap - said), "never more than its caller allows"
    if said < mean and (cap is None or cap > said):
        assert rest.mean >= 1
    if 2 * said <= mean:
        assert rest.most <= whole.most, "not longer than it was at its beginning"


def test_what_is_settled_is_what_the_engine_says_with_cached_tokens_at_their_own_price() -> None:
    assert (
        spent_cost(Usage(prompt_tokens=10, cached_tokens=4, completion_tokens=2), WEIGHTS) == 6 * 10 + 4 + 40
    )
    assert spent_cost(Usage(prompt_tokens=1, cached_tokens=9), WEIGHTS) == 1, (
        "no more is cached than was there"
    )
    assert spent_cost(Usage(prompt_tokens=9), CostWeights(prompt=0)) == 1, "nothing is free"
    assert raised_charge(50, 10, 3, WEIGHTS) == 230
    assert raised_charge(500, 10, 3, WEIGHTS) == 500
    assert is_told(Usage(completion_tokens=1))
    assert not is_told(Usage())


def test_requests_are_alike_by_tenant_model_sort_and_the_size_of_their_cap() -> None:
    one = alike(record(100, answer="tools"))
    assert one == alike(record(120, answer="tools")) == alike(record(240, 2, answer="tools"))
    others: list[dict[str, Any]] = [{"tenant": "b"}, {"model": "n"}, {"answer": "plain"}]
    assert one not in [alike(record(100, **{"answer": "tools", **other})) for other in others]
    assert one != alike(record(1000, answer="tools")) != alike(record(None, answer="tools"))
    assert alike(record(0)) != alike(record(None)), "a cap of nothing is a cap"
    assert alike(record(plain_text=True)).kind == "plain", "an older writer says that much"
    assert alike(record(plain_text=False)).kind == "other"


def test_the_default_counts_until_the_model_is_known_and_the_model_until_the_sort_is() -> None:
    lengths = AnswerLengths(256)
    assert learnt(lengths, [10] * (NEEDED - 1)) == Length(256, 256)
    assert learnt(lengths, [10]).mean == 10
    assert learnt(lengths, [], tenant="new").mean == 10, "the model's own prior"
    assert learnt(lengths, [], model="other") == Length(256, 256)
    assert learnt(lengths, [1000] * NEEDED, tenant="long").mean == 1000
    assert learnt(lengths, []).mean == 10


def test_what_was_long_ago_is_forgotten() -> None:
    lengths = AnswerLengths(256)
    learnt(lengths, [1000] * 500)
    assert learnt(lengths, [10] * 256).mean < 300
    assert learnt(lengths, [10] * 1024).mean <= 11


def test_no_more_sorts_are_kept_than_allowed_and_the_least_used_go_first() -> None:
    lengths = AnswerLengths(256, most_sorts=10)
    learnt(lengths, [10] * NEEDED, tenant="used")
    for number in range(100):
        learnt(lengths, [1000], tenant=f"t{number}")
        learnt(lengths, [], tenant="used")
        assert len(lengths) <= 10
    assert learnt(lengths, [], tenant="used").mean == 10
    assert learnt(lengths, [], tenant="t0").mean > 500, "it has only its model's"


@pytest.mark.parametrize("median", [8, 200, 6_000])
def test_nine_of_ten_answers_are_no_longer_than_the_most(median: int) -> None:
    rng, lengths = Random(median), AnswerLengths(256)  # noqa: S311
    drawn = [int(rng.lognormvariate(0, 0.8) * median) for _ in range(4_000)]
    length = learnt(lengths, drawn)
    within = sum(tokens <= length.most for tokens in drawn) / len(drawn)
    assert 0.8 <= within <= 0.97


def test_the_most_is_that_of_all_where_most_long_answers_are_cut_off() -> None:
    lengths = AnswerLengths(256)
    for number in range(400):
        tokens = 100 if number % 10 < 6 else 1_000
        cut_off = tokens == 1_000 and number % 40 < 36
        lengths.learn(SORT, 200 if cut_off else tokens, cut_off=cut_off)
    assert 800 < lengths.of(SORT).most <= 1_024
    assert 300 < lengths.of(SORT).mean < 500


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**8), st.booleans()), min_size=NEEDED, max_size=300))
def test_an_answer_that_was_cut_off_weighs_as_much_as_another_and_makes_no_estimate_shorter_than_it(
    answers: list[tuple[int, bool]],
) -> None:
    lengths = AnswerLengths(256)
    for tokens, cut_off in answers:
        lengths.learn(SORT, tokens, cut_off=cut_off)
    known = lengths._of[SORT]
    assert known.weight == sum(known.counts) > 0
    assert min(tokens for tokens, _ in answers) <= lengths.of(SORT).mean <= lengths.of(SORT).most


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 10**8), min_size=NEEDED, max_size=300), st.integers(0, 10**6))
def test_an_estimate_lies_within_what_was_seen_and_within_the_cap(answers: list[int], cap: int) -> None:
    length = learnt(AnswerLengths(256), answers)
    assert min(answers) <= length.mean <= max(answers) + 1
    assert length.most >= length.mean
    assert capped(length, cap) == (min(length.mean, cap), min(length.most, cap))
