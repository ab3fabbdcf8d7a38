"""What a hosted API's answers say of its limits, and what is left of it once more was begun."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.contracts.clock import Now
from headrace.contracts.reports import LONGEST_RESET_MS, Allowed, Left
from headrace.inference_worker.decisions.what_is_left import HEADERS, comes_back_evenly, what_is_left
from headrace.inference_worker.protocol.allowances import Allowances
from tests.unit.worker.scripted_world import run_of

NOW = Now(boot_ms=1_000, wall_ms=1_800_000_000_000)
PREFIX = "x-ratelimit-"


def at(ms: int) -> Now:
    return Now(boot_ms=NOW.boot_ms + ms, wall_ms=NOW.wall_ms + ms)


def requests_of(**said: str) -> Left | None:
    allowed = what_is_left({f"{PREFIX}{name}-requests": value for name, value in said.items()}, NOW)
    return None if allowed is None else allowed.requests


def test_openais_headers_are_read() -> None:
    """As its guide to rate limits shows them."""
    headers = {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-limit-tokens": "150000",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-remaining-tokens": "149984",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-reset-tokens": "6m0s",
    }
    assert set(headers) == set(HEADERS)
    assert what_is_left(headers, NOW) == Allowed(
        requests=Left(left=59, reset_ms=1_000, limit=60, steady=True),
        tokens=Left(left=149_984, reset_ms=LONGEST_RESET_MS, limit=150_000),
    )


@pytest.mark.parametrize(
    ("reset", "reset_ms"),
    [
        ("12ms", 12),
        ("7.66s", 7_660),
        ("0s", 0),
        ("6m0s", LONGEST_RESET_MS),
        ("1m", LONGEST_RESET_MS),
        ("2m59.56s", LONGEST_RESET_MS),
        ("1h0m0.5s", LONGEST_RESET_MS),
        ("1s500ms", 1_500),
        ("20\u00b5s", 1),
        ("59", 59_000),
        (" 0.25 ", 250),
        ("1800000007", 7_000),
    ],
)
def test_resets_of_every_shape_are_read_and_none_counts_for_more_than_a_minute(
    reset: str, reset_ms: int
) -> None:
    assert requests_of(remaining="0", reset=reset) == Left(left=0, reset_ms=reset_ms)


@pytest.mark.parametrize(
    "said",
    [
        {"remaining": "-1", "reset": "1s"},
        {"remaining": "none", "reset": "1s"},
        {"remaining": "9" * 5_000, "reset": "1s"},
        {"remaining": "0", "reset": "-5s"},
        {"remaining": "0", "reset": "-5"},
        {"remaining": "0", "reset": "soon"},
        {"remaining": "0", "reset": "1s2"},
        {"remaining": "0", "reset": "9" * 5_000},
        {"remaining": "0", "reset": "87600h"},
        {"remaining": "0", "reset": "31536000"},
        {"remaining": "0", "reset": "1700000000"},
        {"remaining": "0", "reset": "nan"},
        {"remaining": "0", "reset": "inf"},
        {"remaining": "0", "reset": "\u0661s"},
        {"remaining": "0"},
        {"reset": "1s"},
        {},
    ],
)
def test_what_is_negative_makes_no_sense_or_lies_years_ahead_is_not_said(said: dict[str, str]) -> None:
    assert requests_of(**said) is None
    assert requests_of(**said, limit="0") is None
    assert requests_of(**said, limit="60") == Left(limit=60)


_TEXT = st.text(st.sampled_from(string.digits + "hmsd.-+ e\u00b5"), max_size=12) | st.text(max_size=80)


@given(st.dictionaries(st.sampled_from(HEADERS), _TEXT))
def test_any_headers_are_something_that_a_report_takes(headers: dict[str, str]) -> None:
    allowed = what_is_left(headers, NOW)
    for each in () if allowed is None else (allowed.requests, allowed.tokens):
        if each is not None:
            assert 0 <= each.reset_ms <= LONGEST_RESET_MS
            assert each.left is None or each.left >= 0
            assert each.limit is None or each.limit > 0


@given(st.integers(1, 10**6), st.integers(0, 10**6))
def test_a_bucket_is_told_from_a_window(limit: int, taken: int) -> None:
    left = max(0, limit - taken)
    even_ms = 60_000 * (limit - left) / limit
    assert comes_back_evenly(left, limit, round(even_ms))
    assert comes_back_evenly(left, limit, max(0, round(even_ms - 50_000 / limit))), (
        "a part of one is left, too"
    )
    assert not comes_back_evenly(left, limit, round(even_ms * 1.2) + 20)


def test_what_was_begun_since_is_taken_off_and_what_was_begun_before_isnt() -> None:
    kept, runs = Allowances(), [run_of(number, boot="b") for number in range(4)]
    assert kept.told(NOW) is None
    for run in runs[:2]:
        kept.begins(run)
    said = Allowed(
        requests=Left(left=3, reset_ms=5_000), tokens=Left(left=1_000, reset_ms=9_000, limit=2_000)
    )
    assert kept.heard(runs[1].attempt, said, 1, NOW), "nobody knew"
    assert kept.told(NOW) == replace(said, through=runs[1].attempt)
    for run in runs[2:]:
        kept.begins(run)
    told = kept.told(at(1_000))
    assert told is not None
    assert told.requests == Left(left=1, reset_ms=4_000)
    assert told.tokens is not None
    assert told.tokens.left is not None
    assert told.tokens.left < 1_000 or not runs[2].request.prompt_tokens
    assert told.through == runs[3].attempt
    assert kept.heard(runs[2].attempt, said, 4, at(500)), "little is left"
    assert not kept.heard(runs[2].attempt, said, 1, at(500))
    assert kept.heard(runs[2].attempt, said, 1, at(9_500)), "nobody knows any more"
    kept.heard(runs[3].attempt, said, 1, NOW)
    assert not kept.heard(runs[0].attempt, Allowed(requests=Left(left=9, reset_ms=9)), 10, at(1_000)), (
        "it is older"
    )
    through = runs[3].attempt
    tokens = Left(left=1_000, reset_ms=4_000, limit=2_000)
    assert kept.told(at(5_000)) == Allowed(tokens=tokens, through=through)
    assert kept.told(at(9_000)) == Allowed(tokens=Left(limit=2_000), through=through)
    kept.ended(runs[3].attempt)
    assert not kept.heard(runs[3].attempt, said, 1, at(9_000)), "its call is over"


def left_after(kept: Allowances, number: int, said: Left, ms: int) -> Left | None:
    """What is left so long after an answer that said so."""
    run = run_of(number, boot="b")
    kept.begins(run)
    kept.heard(run.attempt, Allowed(requests=said), 1, NOW)
    kept.ended(run.attempt)
    told = kept.told(at(ms))
    return None if told is None else told.requests


FULL, EMPTY = (
    Left(left=50, reset_ms=10_000, limit=60, steady=True),
    Left(left=0, reset_ms=60_000, limit=60, steady=True),
)
OF_A_WINDOW = Left(left=50, reset_ms=40_000, limit=60)


def test_what_comes_back_evenly_is_added() -> None:
    for seconds in (0, 1, 30):
        kept = Allowances()
        left_after(kept, 1, FULL, 0)
        left = left_after(kept, 2, EMPTY, seconds * 1_000)
        assert left == replace(EMPTY, left=seconds, reset_ms=60_000 - seconds * 1_000)


@pytest.mark.parametrize("before", [(), (FULL, OF_A_WINDOW), (OF_A_WINDOW, FULL)])
def test_a_window_that_is_used_up_at_its_begin_is_no_bucket(before: tuple[Left, ...]) -> None:
    kept = Allowances()
    for number, said in enumerate(before):
        left_after(kept, number, said, 0)
    assert left_after(kept, 9, EMPTY, 30_000) == replace(EMPTY, reset_ms=30_000, steady=False)
