"""What a body is found to ask for beyond what its bytes tell: images behind links, and answers to choose from."""

import msgspec
import pytest

from headrace.ingest.decisions.read_submission import CHAT, COMPLETIONS, read_submission


def chat(**more: object) -> bytes:
    return msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": "x" * 40}], **more})


IMAGE = {"type": "image_url", "image_url": {"url": "https://example.com/1.png"}}
SAID = {"type": "text", "text": "what?"}


@pytest.mark.parametrize(
    ("more", "media"),
    [
        ({}, 0),
        ({"messages": [{"role": "user", "content": [SAID, {"text": "no type"}]}]}, 0),
        ({"messages": [{"role": "user", "content": [SAID, IMAGE, IMAGE]}, {"role": "tool", "content": [IMAGE]}]}, 3),
        ({"messages": [{"role": "user", "content": [IMAGE | SAID | {"type": "video_url"}]}]}, 1),
        ({"messages": [{"role": "assistant", "audio": {"id": "audio_1"}}]}, 1),
        ({"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}]}, 1),
        ({"messages": [{"role": "user", "content": [IMAGE, {"type": 7}]}]}, 4),
        ({"tools": [{"type": "function", "function": {"name": "f"}}, {"type": "web_search"}]}, 1),
        ({"tools": [{"type": {}}]}, 2),
        ({"web_search_options": {}, "plugins": [], "search_parameters": None}, 1),
    ],
)  # fmt: skip
def test_what_has_tokens_that_bytes_dont_tell_is_counted(more: dict[str, object], media: int) -> None:
    assert read_submission(chat(**more), CHAT).media == media


@pytest.mark.parametrize(
    ("more", "choices", "sequences"),
    [
        ({}, 1, 0),
        ({"best_of": 1}, 1, 0),
        ({"best_of": 5}, 1, 5),
        ({"n": 2, "best_of": 5}, 2, 5),
        ({"n": 2, "best_of": 2}, 2, 0),
        ({"best_of": 5, "prompt": ["a", "b", "c"]}, 3, 15),
        ({"best_of": -5}, 1, 0),
        ({"best_of": "many"}, 1, 0),
        ({"best_of": 2**62, "prompt": ["a", "b"]}, 2, 2**53),
    ],
)
def test_answers_that_are_made_to_choose_from_are_counted(
    more: dict[str, object], choices: int, sequences: int
) -> None:
    body = {"model": "m", "prompt": "x", **more}
    found = read_submission(msgspec.json.encode(body), COMPLETIONS)
    assert (found.choices, found.sequences) == (choices, sequences)
