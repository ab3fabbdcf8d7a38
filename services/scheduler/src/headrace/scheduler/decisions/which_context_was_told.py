"""How many tokens may a prompt and its answer have, by the words of an engine that refused one? Asked by core.estimating.

Invariant: what says no number tells nothing.
"""

import re

_TOLD = re.compile(r"(?:context[ _](?:length|size)|maximum model length)\D{0,12}(\d{2,12})\b", re.IGNORECASE)
"""As vLLM, SGLang, llama.cpp and OpenAI say it."""


def context_told(message: str) -> int | None:
    """The number, None where it isn't told."""
    found = _TOLD.search(message)
    return None if found is None else int(found[1])
