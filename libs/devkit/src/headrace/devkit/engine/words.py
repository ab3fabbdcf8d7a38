"""The text that the fake engine answers with: a function of the prompt alone. Called by asks and by tests.

Token i of a prompt is a space and a word picked by sha256(prompt, i). So a prompt with the beginning of its
own answer behind it, as after a failover, gets exactly the rest. Some words are not ASCII, as text isn't.
"""

from collections.abc import Iterator
from hashlib import sha256
from itertools import islice

ONSETS = ("ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu", "va")
CODAS = (
    "bel",
    "con",
    "dar",
    "fin",
    "gol",
    "hum",
    "jas",
    "ket",
    "lin",
    "mor",
    "nel",
    "pur",
    "ras",
    "süd",
    "水",
    "🙂",
)
VOCABULARY = tuple(onset + coda for onset in ONSETS for coda in CODAS)
KNOWN_WORDS = frozenset(VOCABULARY)
LONGEST_PARTIAL = 4096


def tokens_of(prompt: str) -> Iterator[str]:
    """All tokens of the endless answer to `prompt`, each with its leading space."""
    seed, block = sha256(prompt.encode(errors="surrogatepass")).digest(), 0
    while True:
        for number in sha256(seed + block.to_bytes(4)).digest():
            yield " " + VOCABULARY[number]
        block += 1


def chat_tokens(prompt: str, partial: str = "") -> Iterator[str]:
    """The tokens of a chat answer that follow `partial`; without it the first has no leading space.

    A `partial` that isn't the beginning of this prompt's answer counts as part of the prompt.
    """
    answer = tokens_of(prompt)
    said = "" if not partial else next(answer).lstrip()
    while len(said) < len(partial):
        said += next(answer)
    if not said.startswith(partial):
        yield from chat_tokens(prompt + partial)
        return
    if rest := said[len(partial) :]:
        yield rest
    if not partial:
        yield next(answer).lstrip()
    yield from answer


def completion_tokens(prompt: str) -> Iterator[str]:
    """The tokens that follow `prompt`, which may end with whole tokens of an answer to its beginning."""
    end = len(prompt)
    candidates: list[int] = []
    while len(candidates) < LONGEST_PARTIAL and (space := prompt.rfind(" ", 0, end)) >= 0:
        if prompt[space + 1 : end] not in KNOWN_WORDS:
            break
        candidates.append(space)
        end = space
    for count, space in zip(range(len(candidates), 0, -1), reversed(candidates), strict=True):
        answer = tokens_of(prompt[:space])
        if "".join(islice(answer, count)) == prompt[space:]:
            yield from answer
            return
    yield from tokens_of(prompt)
