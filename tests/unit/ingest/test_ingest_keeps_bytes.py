"""A body loses or changes one member, and every other byte stays."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.ingest.decisions.json_members import members_of
from headrace.ingest.decisions.replace_model import replace_model, without_member

SPACE = st.sampled_from(["", " ", "\n", "\t \r\n"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(["model", "headrace", "messages", 'quo"te\\', "model ", "{", ",", "ü"])


@st.composite
def documents(draw: st.DrawFn) -> tuple[bytes, list[tuple[str, bytes]]]:
    """A JSON object in any layout, with the source text of each member's value."""
    pairs = draw(st.lists(st.tuples(NAMES, VALUES), max_size=6))
    parts, members = [], []
    for name, value in pairs:
        raw = msgspec.json.encode(value)
        raw = draw(st.sampled_from([raw, msgspec.json.format(raw, indent=2)]))
        members.append((name, raw))
        gaps = [draw(SPACE).encode() for _ in range(4)]
        parts.append(gaps[0] + msgspec.json.encode(name) + gaps[1] + b":" + gaps[2] + raw + gaps[3])
    return draw(SPACE).encode() + b"{" + b",".join(parts) + b"}" + draw(SPACE).encode(), members


def seen(document: bytes) -> list[tuple[str, bytes]]:
    return [(member.name, document[member.value_start : member.end]) for member in members_of(document)]


@given(documents())
def test_every_member_is_found_with_its_bytes(drawn: tuple[bytes, list[tuple[str, bytes]]]) -> None:
    document, members = drawn
    assert seen(document) == members


@given(documents())
def test_replacing_the_model_keeps_all_other_bytes(drawn: tuple[bytes, list[tuple[str, bytes]]]) -> None:
    document, members = drawn
    replaced = replace_model(document, 'an "alias"')
    alias = msgspec.json.encode('an "alias"')
    assert seen(replaced) == [(name, alias if name == "model" else raw) for name, raw in members]
    assert replace_model(replaced, "back") == replace_model(document, "back")


@given(documents())
def test_taking_a_member_out_keeps_all_other_bytes(drawn: tuple[bytes, list[tuple[str, bytes]]]) -> None:
    document, members = drawn
    left = without_member(document, "headrace")
    assert seen(left) == [(name, raw) for name, raw in members if name != "headrace"]
    msgspec.json.decode(left)


@pytest.mark.parametrize(
    ("body", "left"),
    [
        (b'{"headrace": {"a": [1, "}"]}, "x": 1}', b'{"x": 1}'),
        (b'{"x": 1, "headrace": {}}', b'{"x": 1}'),
        (b'{ "x": 1,\n "headrace": {},\n "y": 2 }', b'{ "x": 1,\n "y": 2 }'),
        (b'{"m\\u006fdel": 1, "headrace": 1}', b'{"m\\u006fdel": 1}'),
        (b'{"headrace": {}}', b"{}"),
    ],
)
def test_what_is_left_reads_as_if_it_had_never_been_there(body: bytes, left: bytes) -> None:
    assert without_member(body, "headrace") == left
