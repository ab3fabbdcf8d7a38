"""The engine's text goes on identically wherever it was cut, for whoever asks again."""

from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.devkit.engine.words import chat_text, completion_text, natural_length

PROMPTS = st.text(max_size=80) | st.sampled_from(
    ["Say:", "user: bacon", "user: hi bafin", "ends in a space "]
)
SEEDS = st.sampled_from([b"", b"7:"])
LENGTH = 30


def first(prompt: str, seed: bytes) -> list[str]:
    return list(islice(chat_text(prompt, "", seed).rest, LENGTH))


@settings(deadline=None)
@given(PROMPTS, SEEDS, st.data())
def test_a_chat_goes_on_identically_wherever_it_was_cut(
    prompt: str, seed: bytes, data: st.DataObject
) -> None:
    whole = "".join(first(prompt, seed))
    cut = data.draw(st.integers(0, len(whole)))
    text = chat_text(prompt, whole[:cut], seed)
    rest = list(islice(text.rest, LENGTH - text.said))
    assert whole[:cut] + "".join(rest) == whole
    assert text.prompt == prompt


@settings(deadline=None)
@given(PROMPTS, SEEDS, st.lists(st.integers(0, LENGTH), min_size=1, max_size=4))
def test_a_completion_goes_on_identically_after_any_number_of_tokens(
    prompt: str, seed: bytes, cuts: list[int]
) -> None:
    start = completion_text(prompt, seed)
    tokens = list(islice(start.rest, LENGTH))
    for cut in cuts:
        text = completion_text(prompt + "".join(tokens[:cut]), seed)
        assert list(islice(text.rest, LENGTH - cut)) == tokens[cut:]
        assert (text.prompt, text.said) == (start.prompt, start.said + cut)


@settings(deadline=None)
@given(PROMPTS, st.sampled_from(["Well,", "The answer is", "süd 水"]), st.integers(0, LENGTH))
def test_an_answer_that_the_caller_began_goes_on_identically_too(
    prompt: str, beginning: str, cut: int
) -> None:
    tokens = list(islice(chat_text(prompt, beginning).rest, LENGTH))
    again = chat_text(prompt, beginning + "".join(tokens[:cut]))
    assert list(islice(again.rest, LENGTH - cut)) == tokens[cut:]


def test_another_seed_or_prompt_is_another_text() -> None:
    texts = {tuple(first(prompt, seed)) for prompt in ("a", "b") for seed in (b"", b"1:", b"2:")}
    assert len(texts) == 6


def test_lengths_differ_by_prompt_and_stay_in_their_bounds() -> None:
    lengths = {natural_length(f"prompt {n}", b"", 8, 40) for n in range(200)}
    assert (min(lengths), max(lengths)) == (8, 40)
    assert natural_length("any", b"", 16, 16) == 16
