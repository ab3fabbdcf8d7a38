"""What a record tells of a prompt's beginning and its session: enough to find its cache, and nothing to anybody else."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.prefixes import BLOCK_TOKENS, ENDS, HASH_CHARACTERS, hashes_of
from headrace.ingest.decisions.read_submission import CHAT, COMPLETIONS, read_submission
from headrace.ingest.decisions.which_prefix import which_prefix
from headrace.ingest.decisions.which_session import which_session

SECRET = b"k" * 32
BLOCK = 4 * BLOCK_TOKENS


def hashes(prompt: bytes, tenant: str = "a", model: str = "m", secret: bytes = SECRET) -> list[str]:
    return hashes_of(which_prefix([memoryview(prompt)], tenant=tenant, model=model, secret=secret))


def filled(seed: int, size: int) -> bytes:
    return bytes((seed + at * at) % 251 for at in range(size))


@given(st.integers(0, 40), st.integers(0, 12), st.integers(0, 12))
def test_prompts_have_the_hashes_of_their_common_beginning_in_common_and_no_others(
    common: int, one: int, other: int
) -> None:
    begin = filled(1, common * BLOCK)
    mine, theirs = (
        hashes(begin + bytes([number]) * (more * BLOCK)) for number, more in ((1, one), (2, other))
    )
    same = sum(end <= common for end in ENDS)
    assert mine[:same] == theirs[:same]
    assert not set(mine[same:]) & set(theirs[same:])
    assert len(mine) == sum(end <= common + one for end in ENDS)


def test_a_prompt_of_less_than_a_block_has_none_and_the_longest_has_them_all() -> None:
    assert hashes(bytes(BLOCK - 1)) == []
    longest = hashes(bytes(ENDS[-1] * BLOCK + 9 * BLOCK))
    assert len(longest) == len(ENDS) == len(set(longest))
    assert {len(each) for each in longest} == {HASH_CHARACTERS}


def test_the_parts_of_a_prompt_count_as_one_text() -> None:
    text = filled(3, 5 * BLOCK)
    parts = [memoryview(text)[:999], memoryview(text)[999:]]
    assert which_prefix(parts, tenant="a", model="m", secret=SECRET) == "".join(hashes(text))


def test_no_tenant_can_tell_or_make_the_hashes_of_another() -> None:
    text = filled(5, 3 * BLOCK)
    mine = hashes(text)
    others = [hashes(text, tenant="b"), hashes(text, secret=b"l" * 32), hashes(text, model="n")]
    others.append(hashes(text, tenant="a/m", model=""))
    assert not any(set(mine) & set(other) for other in others)


def test_a_conversations_next_turn_begins_as_the_last_one_did() -> None:
    turns = [{"role": "user", "content": "word " * 900}]
    tools = [{"type": "function", "function": {"name": "f" * 3000}}]
    found = []
    for _ in range(3):
        body = msgspec.json.encode({"model": "m", "tools": tools, "messages": turns})
        found.append(which_prefix(read_submission(body, CHAT).prompt, tenant="a", model="m", secret=SECRET))
        turns += [{"role": "assistant", "content": "yes " * 600}, {"role": "user", "content": "more " * 400}]
    assert hashes_of(found[0])
    assert found[1].startswith(found[0])
    assert found[2].startswith(found[1])
    completion = msgspec.json.encode({"model": "m", "prompt": "word " * 900})
    assert which_prefix(read_submission(completion, COMPLETIONS).prompt, tenant="a", model="m", secret=SECRET)


def session(*named: str | None, tenant: str = "a", secret: bytes = SECRET) -> str | None:
    return which_session(named=named, tenant=tenant, secret=secret)


def test_the_strongest_word_on_the_session_counts_and_only_its_hash_is_kept() -> None:
    assert session(None, "", None) is None
    assert session("one", "two") == session(None, "one") != session("two")
    assert "ada@example.com" not in (session("ada@example.com") or "")
    assert len(session("x" * 10_000) or "") <= 128
    assert len({session("one"), session("one", tenant="b"), session("one", secret=b"l" * 32)}) == 3


def test_openais_cache_key_is_read_and_a_strange_one_is_the_backends_matter() -> None:
    def key(value: object) -> str | None:
        body = {"model": "m", "prompt_cache_key": value, "messages": [{"role": "user", "content": "x"}]}
        return read_submission(msgspec.json.encode(body), CHAT).cache_key

    assert (key("thread-7"), key(7), key(None)) == ("thread-7", None, None)
