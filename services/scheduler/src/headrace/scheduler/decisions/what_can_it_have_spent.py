"""How many tokens can an attempt have spent at most, whatever its worker says? Asked by core.believing for each word of one.

The rule: a sequence has at most its model's context, of its prompt and of its answer, and an attempt has as many sequences as
choices are asked for, or made to choose from (`best_of`). Less is believed only where more can't be:
- of a prompt of text alone, a token for each of its bytes and of the text that it goes on from, and 65,536 that its backend
  may put before it; things whose length bytes don't tell add `media_tokens` each, where the operator says how many;
- of an answer, its `max_tokens`, `reasoning_tokens` and 1,024, where the operator says how many are counted beside it;
- of an answer, 131,072 at once, as one out of a cache comes, and 50,000 for each second since it was released.
Invariant: what an honest engine says is never cut, and a lie moves no counter by more than this.
"""

from typing import NamedTuple

from headrace.contracts.values import Usage

LONGEST_CONTEXT = 10_000_000
"""Of any model, where the policy doesn't say `context_length`."""
MOST_SEQUENCES = 128
"""Of one whose request hasn't been read: as many choices as may be asked for."""
PROMPT_BESIDES, ANSWER_BESIDES = 65_536, 1_024
"""What a backend may put before any prompt, such as instructions of its own; what an engine may add to an answer."""
AT_ONCE, FASTEST = 131_072, 50_000
"""Tokens of one sequence: at once, and in a second, which is several times what the fastest engines make."""


class Most(NamedTuple):
    """Tokens of a prompt, and of all choices of its answer."""

    prompt: int
    answer: int


class Told(NamedTuple):
    """What the policy says of a pool's backends; None: nothing."""

    context: int | None = None
    media_tokens: int | None = None
    reasoning_tokens: int | None = None


class Asked(NamedTuple):
    """What a request asks for: the bytes of its payload, its cap on the whole answer, how many choices; how many tokens of an
    earlier attempt's text stand in its prompt, how many sequences it has, and of how many things bytes don't tell the length.
    """

    size: int
    cap: int | None
    choices: int
    said: int = 0
    sequences: int = 0
    media: int = 0


def most_of(told: Told, asked: Asked | None, took_ms: int | None) -> Most:
    """`asked` None: the request isn't known. `took_ms`: since it was released; None: another owner released it."""
    context = LONGEST_CONTEXT if told.context is None else told.context
    if asked is None:
        longest = max(context, min(MOST_SEQUENCES * context, LONGEST_CONTEXT))
        return Most(longest, longest)
    prompt, answer, sequences = _prompt(told, asked), _answer(told, asked, took_ms), _sequences(asked)
    return Most(sequences * min([context, *prompt]), sequences * min([context, *answer]))


def _sequences(asked: Asked) -> int:
    return max(1, asked.choices, asked.sequences)


def _prompt(told: Told, asked: Asked) -> list[int]:
    """What bounds the prompt of a sequence beside its context."""
    text = asked.size + asked.said + PROMPT_BESIDES
    if not asked.media:
        return [text]
    return [] if told.media_tokens is None else [text + asked.media * told.media_tokens]


def _answer(told: Told, asked: Asked, took_ms: int | None) -> list[int]:
    """What bounds the answer of a sequence beside its context."""
    bounds = [] if took_ms is None else [AT_ONCE + FASTEST * took_ms // 1_000]
    if asked.cap is not None and told.reasoning_tokens is not None:
        bounds.append(-(-asked.cap // max(1, asked.choices)) + told.reasoning_tokens + ANSWER_BESIDES)
    return bounds


def is_small(usage: Usage) -> bool:
    """Whether so little was spent that nobody need ask."""
    return usage.prompt_tokens <= PROMPT_BESIDES and usage.completion_tokens <= ANSWER_BESIDES


def cut_to(usage: Usage, most: Most) -> Usage:
    """What is believed of it."""
    prompt = min(usage.prompt_tokens, most.prompt)
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=min(usage.completion_tokens, most.answer),
        cached_tokens=min(usage.cached_tokens, prompt),
        estimated=usage.estimated,
    )
