"""The text that the fake engine answers with: a function of seed and prompt alone. Called by asks and by tests.

Token i of a prompt is a space and a word picked by sha256(seed, prompt, i). So a prompt with the beginning of its
own answer behind it, as after a failover, gets exactly the rest. Some words are not ASCII, as text isn't.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain, islice

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
TOKENS = tuple(" " + word for word in VOCABULARY)
LONGEST_PARTIAL = 4096


def tokens_of(prompt: str, seed: bytes = b"") -> Iterator[str]:
    """All tokens of the endless answer to `prompt`, each with its leading space."""
    state, block = sha256(seed + prompt.encode(errors="surrogatepass")).digest(), 0
    while True:
        for number in sha256(state + block.to_bytes(4)).digest():
            yield TOKENS[number]
        block += 1


def natural_length(prompt: str, seed: bytes, shortest: int, longest: int) -> int:
    """How many tokens this prompt's answer has by itself, in these bounds."""
    if shortest == longest:
        return shortest
    number = int.from_bytes(sha256(seed + b"length" + prompt.encode(errors="surrogatepass")).digest()[:4])
    return shortest + number % (longest - shortest + 1)


@dataclass(frozen=True)
class Text:
    """An answer from where a caller's prompt leaves off: what the model sees as prompt, and how much is said already.

    `said` tokens of the answer to `prompt` stand at the end of what was sent; `rest`: the tokens that follow.
    """

    prompt: str
    said: int
    rest: Iterator[str]


def chat_text(prompt: str, partial: str = "", seed: bytes = b"") -> Text:
    """The answer of a chat behind `partial`; without it the first token has no leading space.

    A `partial` that isn't the beginning of this prompt's answer is gone on with as a completion.
    """
    answer = tokens_of(prompt, seed)
    first = next(answer)[1:]
    if not partial:
        return Text(prompt, 0, chain((first,), answer))
    said, count = first, 1
    while len(said) < len(partial):
        said += next(answer)
        count += 1
    if not said.startswith(partial):
        return completion_text(prompt + partial, seed)
    if over := said[len(partial) :]:
        return Text(prompt, count - 1, chain((over,), answer))
    return Text(prompt, count, answer)


def completion_text(prompt: str, seed: bytes = b"") -> Text:
    """The answer to `prompt`, which may end with whole tokens of an answer to its beginning."""
    end = len(prompt)
    candidates: list[int] = []
    while len(candidates) < LONGEST_PARTIAL and (space := prompt.rfind(" ", 0, end)) >= 0:
        if prompt[space + 1 : end] not in KNOWN_WORDS:
            break
        candidates.append(space)
        end = space
    for count, space in zip(range(len(candidates), 0, -1), reversed(candidates), strict=True):
        answer = tokens_of(prompt[:space], seed)
        if prompt.startswith(first := next(answer), space):
            said = first + "".join(islice(answer, count - 1))
            if said == prompt[space:]:
                return Text(prompt[:space], count, answer)
    return Text(prompt, 0, tokens_of(prompt, seed))


def salt_of(seed: int) -> bytes:
    """What an engine with this `--seed`, or a request with this `seed`, mixes into its answers; 0 mixes nothing in."""
    return b"%d:" % seed if seed else b""


def chat_tokens(prompt: str, partial: str = "", *, seed: int = 0) -> Iterator[str]:
    """The tokens of a chat's answer that follow `partial`."""
    return chat_text(prompt, partial, salt_of(seed)).rest


def completion_tokens(prompt: str) -> Iterator[str]:
    """The tokens of a completion that follow `prompt`."""
    return completion_text(prompt).rest
