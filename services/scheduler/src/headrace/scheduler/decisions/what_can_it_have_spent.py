"""How many tokens can an attempt have spent at most, whatever its worker says? Asked by core.believing for each word of one.

Invariant: an honest word is never cut, and a lie moves no counter by more than the bound: of the prompt, no more than its
model's context for each choice (a list of prompts has one for each), nor than 65,536 and one for each of its bytes; of each
choice of its answer, no more than that context, twice its `max_tokens` and 1,024 (some engines count what they think
besides), and 10,000 for each second since it was released.
"""

from typing import NamedTuple

from headrace.contracts.values import Usage

LONGEST_CONTEXT = 10_000_000
"""Of any model, where the policy doesn't say `context_length`."""
PROMPT_BESIDES, ANSWER_BESIDES = 65_536, 1_024
"""What is behind a short prompt's links, such as images; what an engine may add."""
FASTEST = 10_000
"""Tokens a second of one choice of an answer: several times what the fastest engines make."""


class Most(NamedTuple):
    """Tokens of a prompt, and of all choices of its answer."""

    prompt: int
    answer: int


class Asked(NamedTuple):
    """What a request asks for: the bytes of its payload, its cap on the whole answer, how many choices; and how many tokens
    of an earlier attempt's text stand in its prompt.
    """

    size: int
    cap: int | None
    choices: int
    said: int = 0


def most_of(context: int | None, asked: Asked | None, took_ms: int | None) -> Most:
    """`context`: as the policy says. `asked` None: the request isn't known. `took_ms`: since it was released; None: another
    owner released it.
    """
    context = LONGEST_CONTEXT if context is None else context
    if asked is None:
        return Most(context, context)
    choices = max(1, asked.choices)
    each = [context] if asked.cap is None else [context, 2 * -(-asked.cap // choices) + ANSWER_BESIDES]
    if took_ms is not None:
        each.append(FASTEST * (took_ms + 1_000) // 1_000)
    return Most(min(choices * context, asked.size + asked.said + PROMPT_BESIDES), choices * min(each))


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
