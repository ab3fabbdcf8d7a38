"""What does a prompt begin with, as nobody outside its tenant can tell or claim? Called by the service once per request.

Invariant: prompts of one tenant and model whose bytes begin alike have the same hashes as far as they do; without the secret
nobody can make another's, so no tenant learns of, or is steered by, what others ask.
"""

from base64 import b64encode
from collections.abc import Iterable
from hashlib import blake2b

from headrace.contracts.prefixes import BLOCK_TOKENS, ENDS, HASH_CHARACTERS
from headrace.ingest.decisions.estimate_tokens import BYTES_PER_TOKEN

_BLOCK_BYTES = BLOCK_TOKENS * BYTES_PER_TOKEN
_MOST_BYTES = ENDS[-1] * _BLOCK_BYTES
_DIGEST = HASH_CHARACTERS * 6 // 8


def which_prefix(parts: Iterable[memoryview], *, tenant: str, model: str, secret: bytes) -> str:
    """The hashes of the prompt's beginnings, in the record's form; `parts`: the prompt's bytes, in the engine's order.

    Costs a microsecond for two thousand bytes, none for a prompt of less, and nothing beyond the last of ENDS.
    """
    whole = b"".join(part[:_MOST_BYTES] for part in parts)
    blocks = len(whole) // _BLOCK_BYTES
    if not blocks:
        return ""
    whose = f"{len(tenant)}/{tenant}/{model}".encode()
    chain = blake2b(whose, digest_size=_DIGEST, key=secret[:64], person=b"prefix")
    view, begin, found = memoryview(whole), 0, list[bytes]()
    for end in ENDS:
        if end > blocks:
            break
        chain.update(view[begin : (begin := end * _BLOCK_BYTES)])
        found.append(chain.digest())
    return b64encode(b"".join(found), b"-_").decode()
