"""How a record tells what its prompt begins with: hashes of a few of its beginnings, in one short text.

Written by ingest, compared by the scheduler. Invariant: which beginnings are hashed doesn't depend on the prompt's length, so
that two prompts can be compared; each hash stands for all that comes before its end, and is of one tenant and model alone.
"""

from typing import Annotated

from msgspec import Meta

BLOCK_TOKENS = 512
ENDS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""How many blocks of BLOCK_TOKENS each hashed beginning has: close together where prompts part, up to 131,072 tokens."""
HASH_CHARACTERS = 8
Prefix = Annotated[str, Meta(max_length=len(ENDS) * HASH_CHARACTERS)]
"""The hashes of the beginnings, the shortest first; only of those that the prompt has whole."""


def hashes_of(prefix: Prefix) -> list[str]:
    """The hashes, in the order of ENDS. What is left over at the end, which no writer of ours leaves, is no hash."""
    whole = len(prefix) - HASH_CHARACTERS + 1
    return [prefix[at : at + HASH_CHARACTERS] for at in range(0, whole, HASH_CHARACTERS)]
