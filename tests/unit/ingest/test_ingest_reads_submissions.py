"""What a body is found to ask for, and that no body at all ends in anything but a Submission or a Refusal."""

import contextlib
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.policy import Policy, PoolPolicy, TenantPolicy
from headrace.ingest.decisions.may_admit import declared_size, may_open, which_pool
from headrace.ingest.decisions.may_fall_back import may_fall_back
from headrace.ingest.decisions.read_submission import CHAT, COMPLETIONS, read_submission
from headrace.ingest.decisions.which_deadline import duration_or_refusal, read_timeout_of, which_deadline
from headrace.ingest.decisions.which_fairness_key import which_fairness_key
from headrace.ingest.decisions.which_tier import which_tier
from headrace.ingest.refusal import Refusal

POLICY = Policy(pools={"small": PoolPolicy(models={"small": "small"})})


def chat(**more: object) -> bytes:
    return msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": "x" * 40}], **more})


def refused(body: bytes, route: str | None = CHAT) -> Refusal:
    with pytest.raises(Refusal) as caught:
        read_submission(body, route)
    return caught.value


def test_a_chat_is_read_as_far_as_needed() -> None:
    body = chat(stream=True, stream_options={"include_usage": True}, max_tokens=9, service_tier="flex")
    found = read_submission(body, CHAT)
    assert (found.model, found.stream, found.sends_usage, found.max_tokens) == ("m", True, True, 9)
    assert (found.prompt_tokens, found.choices, found.service_tier) == (14, 1, "flex")


@pytest.mark.parametrize(
    ("more", "end_user"),
    [
        ({}, None),
        ({"user": "u"}, "u"),
        ({"user": "u", "safety_identifier": "s"}, "s"),
        ({"user": "u", "safety_identifier": ""}, "u"),
        ({"user": 7, "safety_identifier": None}, None),
        ({"user": {"name": "u"}}, None),
    ],
)
def test_the_end_user_is_told_from_openais_members_and_a_strange_one_is_the_backends_matter(
    more: dict[str, object], end_user: str | None
) -> None:
    assert read_submission(chat(**more), CHAT).end_user == end_user
    assert read_submission(chat(**more), None).end_user == end_user


def key_of(*headers: str | None, field: str | None = None, end_user: str | None = None) -> str | None:
    return which_fairness_key(headers=headers, field=field, end_user=end_user, secret=b"k" * 32)


def test_a_callers_wish_about_other_pools_is_true_or_false_and_else_the_policys() -> None:
    assert may_fall_back(None, None)
    assert may_fall_back(None, True)
    assert not may_fall_back(None, False)
    assert not may_fall_back(" False", None)
    assert may_fall_back("true", False)
    with pytest.raises(Refusal) as told:
        may_fall_back("perhaps", None)
    assert (told.value.status, told.value.code) == (422, "invalid_header")


def test_the_strongest_word_on_the_fairness_key_counts() -> None:
    assert key_of("own", "llm-d", field="field", end_user="user") == "own"
    assert key_of(None, "llm-d", field="field", end_user="user") == "llm-d"
    assert key_of("", None, field="field", end_user="user") == "field"
    assert key_of("x" * 128) == "x" * 128
    assert key_of() is None
    assert key_of(end_user="") is None


def test_an_end_user_of_the_body_is_told_by_a_hash_that_needs_the_secret() -> None:
    ada = key_of(None, end_user="ada@example.com")
    assert ada == key_of(end_user="ada@example.com") != key_of(end_user="bob@example.com")
    assert ada is not None
    assert "ada" not in ada
    other = which_fairness_key(headers=(), field=None, end_user="ada@example.com", secret=b"l" * 32)
    assert ada != other


def test_long_fairness_keys_are_told_apart_and_fit_a_record() -> None:
    one, other = (key_of("x" * 200 + end, end_user="user") or "" for end in "ab")
    assert one != other
    assert len(one) == len(other) == 32


def test_the_newer_cap_on_tokens_wins() -> None:
    assert read_submission(chat(max_tokens=9, max_completion_tokens=7), CHAT).max_tokens == 7


def test_a_data_url_costs_no_prompt_tokens() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}
    body = chat(messages=[{"role": "user", "content": [{"type": "text", "text": "what?"}, image]}])
    assert read_submission(body, CHAT).prompt_tokens < 10


@pytest.mark.parametrize(
    ("prompt", "tokens", "choices"),
    [("abcdefgh", 2, 1), ([1, 2, 3], 3, 1), (["abcd", "efgh"], 2, 2), ([[1, 2], [3]], 3, 2), ([], 0, 1)],
)
def test_prompts_of_every_shape_are_counted(prompt: object, tokens: int, choices: int) -> None:
    found = read_submission(msgspec.json.encode({"model": "m", "prompt": prompt}), COMPLETIONS)
    assert (found.prompt_tokens, found.choices) == (tokens, choices)


@pytest.mark.parametrize(
    ("more", "plain"),
    [
        ({}, True),
        ({"n": 1, "temperature": 0, "tools": [], "logprobs": False}, True),
        ({"response_format": {"type": "text"}}, True),
        ({"response_format": {"type": "json_object"}}, False),
        ({"tools": [{"type": "function"}]}, False),
        ({"logprobs": True}, False),
        ({"n": 2}, False),
        ({"top_k": 5}, False),
    ],
)
def test_only_text_alone_is_plain_text(more: dict[str, object], plain: bool) -> None:
    assert read_submission(chat(**more), CHAT).plain_text is plain


@pytest.mark.parametrize(
    ("more", "answer"),
    [
        (
            {"temperature": 0, "tools": [], "response_format": {"type": "text"}, "reasoning_effort": None},
            "plain",
        ),
        ({"tools": [{"type": "function"}], "response_format": {"type": "json_object"}}, "tools"),
        ({"response_format": {"type": "json_object"}}, "schema"),
        ({"tools": [{"type": "function"}], "reasoning_effort": "high"}, "reasoning"),
    ],
)
def test_the_sort_of_answer_is_told_by_what_the_body_asks_for(more: dict[str, object], answer: str) -> None:
    assert read_submission(chat(**more), CHAT).answer == answer


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"a":NaN}',
        b'\xef\xbb\xbf{"a":1}',
        b'{"a":"\\ud800"}',
        b'{"a":"\xff"}',
        b'{"a":' + b"[" * 100_000,
    ],
)
def test_what_is_not_json_is_a_400(body: bytes) -> None:
    assert (refused(body).status, refused(body).code) == (400, "invalid_json")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (b"[]", ""),
        (b"{}", "/messages"),
        (b'{"messages":[]}', "/model"),
        (b'{"messages":"hello","model":"m"}', "/messages"),
        (b'{"messages":[],"model":7}', "/model"),
        (b'{"messages":[],"model":"m","stream":"yes"}', "/stream"),
        (b'{"messages":[],"model":"m","max_tokens":-1}', "/max_tokens"),
        (b'{"messages":[],"model":"m","max_tokens":1e400}', "/max_tokens"),
        (
            b'{"messages":[],"model":"m","stream_options":{"include_usage":3}}',
            "/stream_options/include_usage",
        ),
    ],
)
def test_wrong_types_are_a_422_with_the_place(body: bytes, pointer: str) -> None:
    assert (refused(body).status, refused(body).pointer) == (422, pointer)


def test_the_native_door_reads_its_options_and_finds_the_route() -> None:
    options = {"tier": "batch", "priority": 3, "deadline": "30s", "metadata": {"a": "b"}}
    found = read_submission(chat(headrace=options), None)
    assert (found.route, found.options.tier, found.options.metadata) == (CHAT, "batch", {"a": "b"})
    assert read_submission(b'{"model":"m","prompt":"x"}', None).route == COMPLETIONS
    assert refused(b'{"model":"m"}', None).status == 422
    assert refused(chat(headrace={"teir": "batch"}), None).pointer == "/headrace"
    assert refused(chat(headrace={"metadata": {str(i): "" for i in range(17)}}), None).status == 422


@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(
                    ["model", "messages", "prompt", "n", "stream", "headrace", "content", "max_tokens", "x"]
                ),
                inner,
            )
        ),
        max_leaves=20,
    ).map(msgspec.json.encode)
)
def test_any_bytes_are_a_submission_or_a_refusal(body: bytes) -> None:
    for route in (CHAT, COMPLETIONS, None):
        with contextlib.suppress(Refusal):
            read_submission(body, route)


def test_the_strongest_word_about_the_tier_counts() -> None:
    tenant = TenantPolicy()
    assert which_tier(POLICY, tenant, header="batch", field="interactive", service_tier="flex") == "batch"
    assert which_tier(POLICY, tenant, header=None, field="interactive", service_tier="flex") == "interactive"
    assert which_tier(POLICY, tenant, header=None, field=None, service_tier="priority") == "interactive"
    assert which_tier(POLICY, tenant, header=None, field=None, service_tier="auto") == "standard"


def test_an_unknown_tier_is_a_422_that_lists_them_and_a_foreign_one_a_403() -> None:
    with pytest.raises(Refusal, match="batch, interactive, standard") as unknown:
        which_tier(POLICY, TenantPolicy(), header="gold", field=None, service_tier=None)
    with pytest.raises(Refusal) as foreign:
        which_tier(
            POLICY, TenantPolicy(tiers=("standard",)), header=None, field=None, service_tier="priority"
        )
    assert (unknown.value.status, foreign.value.status) == (422, 403)


def test_the_smallest_deadline_counts_and_nobody_waits_longer_than_the_tier_allows() -> None:
    minute, hour = timedelta(minutes=1), timedelta(hours=1)
    found = which_deadline(1000, minute, queue_timeout=hour, deadline=hour, read_timeout=minute)
    assert found == (61_000, 61_000)
    assert which_deadline(0, minute, queue_timeout=None, deadline=None, read_timeout=None) == (60_000, None)


@pytest.mark.parametrize("text", ["", "0", "-1s", "soon", "1e9", "999d", "९s"])
def test_a_duration_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Refusal):
        duration_or_refusal(text, "X-Headrace-Deadline")
    assert duration_or_refusal("1.5", "x") == timedelta(seconds=1.5)


def test_a_client_that_says_no_time_out_has_none() -> None:
    assert read_timeout_of("600.0") == timedelta(minutes=10)
    assert (read_timeout_of("None"), read_timeout_of("inf"), read_timeout_of("0"), read_timeout_of(None)) == (
        None,
    ) * 4


def test_limits_at_the_door() -> None:
    may_open(9, 10)
    declared_size("10", 10)
    declared_size("nonsense", 10)
    for call in (
        lambda: may_open(10, 10),
        lambda: declared_size("11", 10),
        lambda: which_pool(POLICY, "large"),
    ):
        with pytest.raises(Refusal):
            call()
