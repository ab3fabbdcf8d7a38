"""Whether a request may come in at all. Called before and after its body is read.

Invariant: whoever is refused has left nothing in the log.
"""

from headrace.contracts.policy import Policy
from headrace.ingest.refusal import Refusal

_BUSY_SECONDS = 2


def may_open(open_now: int, limit: int) -> None:
    """One more request on this replica. Raises Refusal (503)."""
    if open_now >= limit:
        sentence = (
            f"This replica holds {open_now} open requests and takes no more than {limit}; try again shortly."
        )
        raise Refusal(503, "overloaded", sentence, retry_after=_BUSY_SECONDS)


def declared_size(content_length: str | None, limit: int) -> None:
    """What Content-Length says, before anything is read. Raises Refusal (413)."""
    if content_length is not None and content_length.isdigit():
        may_be_read(int(content_length), limit)


def may_be_read(size: int, limit: int) -> None:
    """As many bytes of a body. Raises Refusal (413)."""
    if size > limit:
        raise too_large(f"The body is larger than {limit} bytes, the most that is taken.")


def too_large(sentence: str) -> Refusal:
    """The refusal of a body that doesn't fit."""
    return Refusal(413, "body_too_large", sentence, may_retry=False)


def which_pool(policy: Policy, model: str) -> str:
    """The pool that serves a model. Raises Refusal (404, as OpenAI says it)."""
    pool = policy.pool_of(model)
    if pool is None:
        sentence = f"The model {model[:128]!r} does not exist or you do not have access to it."
        raise Refusal(404, "model_not_found", sentence, pointer="/model")
    return pool
