"""Embeddings as vLLM serves them: vectors that are a function of the text. Called by generating. Pure.

They make no tokens: in the batch they are prompts to compute, and nothing behind.
"""

import struct
from base64 import b64encode
from dataclasses import dataclass
from hashlib import shake_128
from math import sqrt
from typing import Any

import orjson

from headrace.devkit.engine.asks import Reading, read_fields, tokens_in
from headrace.devkit.engine.refusals import bad, too_long
from headrace.devkit.engine.sequences import Sequence, block_keys

DIMENSIONS, MOST_DIMENSIONS = 64, 4096


@dataclass(frozen=True, slots=True)
class EmbeddingAsk:
    """One call; an input of token numbers is the text of their digits."""

    model: str
    texts: tuple[str, ...]
    dimensions: int
    as_base64: bool

    @property
    def prompt_tokens(self) -> int:
        """Of all texts."""
        return sum(map(tokens_in, self.texts))

    def sequences(self) -> list[Sequence]:
        """One for each text."""
        return [Sequence(tokens_in(text), 0, keys=block_keys(text)) for text in self.texts]

    def body(self, name: str, created: int) -> bytes:
        """vLLM's answer."""
        vectors = [vector(text, self.dimensions) for text in self.texts]
        data = [
            {"index": index, "object": "embedding", "embedding": self._shown(one)}
            for index, one in enumerate(vectors)
        ]
        usage = {
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.prompt_tokens,
            "completion_tokens": 0,
            "prompt_tokens_details": None,
        }
        head = {"id": f"embd-{name}", "object": "list", "created": created, "model": self.model}
        return orjson.dumps({**head, "data": data, "usage": usage})

    def _shown(self, floats: list[float]) -> list[float] | str:
        return b64encode(struct.pack(f"<{len(floats)}f", *floats)).decode() if self.as_base64 else floats


def vector(text: str, dimensions: int) -> list[float]:
    """A unit vector, the same for the same text; near vectors mean nothing."""
    drawn = struct.unpack(
        f"<{dimensions}h", shake_128(text.encode(errors="surrogatepass")).digest(2 * dimensions)
    )
    length = sqrt(sum(value * value for value in drawn)) or 1.0
    return [value / length for value in drawn]


def read_embedding_ask(body: bytes, reading: Reading) -> EmbeddingAsk:
    """Raises EngineRefusal."""
    fields = read_fields(body, reading.models)
    dimensions = fields.get("dimensions")
    if dimensions is None:
        dimensions = DIMENSIONS
    if not isinstance(dimensions, int) or not 1 <= dimensions <= MOST_DIMENSIONS:
        raise bad(f"dimensions must be between 1 and {MOST_DIMENSIONS}", "dimensions")
    texts = tuple(_texts(fields.get("input")))
    for text in texts:
        if tokens_in(text) > reading.max_model_len:
            raise too_long(tokens_in(text), reading.max_model_len)
    return EmbeddingAsk(fields["model"], texts, dimensions, fields.get("encoding_format") == "base64")


def _texts(given: Any) -> list[str]:  # noqa: ANN401 - whatever JSON a caller sent
    """One text or list of token numbers, or a list of such."""
    if isinstance(given, str) or _numbers(given):
        return [_text(given)]
    if not isinstance(given, list) or not given:
        raise bad("1 validation error:\n  input: a text, or a list of texts or of token numbers", "input")
    return [_text(one) for one in given]


def _text(given: Any) -> str:  # noqa: ANN401 - likewise
    if isinstance(given, str):
        return given
    if _numbers(given):
        return " ".join(map(str, given))
    raise bad("1 validation error:\n  input: each a text or a list of token numbers", "input")


def _numbers(given: Any) -> bool:  # noqa: ANN401 - likewise
    return isinstance(given, list) and bool(given) and all(isinstance(one, int) for one in given)
