"""The values that records share: payload descriptions, places in a log, usage, times, failures.

Invariant: integers are bounded here, so that a lying record fails to decode instead of moving somebody's counters.
"""

from typing import Annotated

from msgspec import Meta, Struct

from headrace.contracts.failures import FailureKind
from headrace.contracts.seal import Encoding

Count = Annotated[int, Meta(ge=0, le=2**53)]
Priority = Annotated[int, Meta(ge=-(2**31), le=2**31)]
"""A caller's wish among its own requests, greater first; bounded, so that arithmetic with it stays cheap and stored."""
MOST_TOKENS = 10**8
Tokens = Annotated[int, Meta(ge=0, le=MOST_TOKENS)]
"""Of one attempt: more than any context holds, and few enough that a lie can't starve a tenant for days."""
Port16 = Annotated[int, Meta(ge=0, le=65_535)]
LATEST_MS = 4_102_444_800_000
"""The end of the year 2099, Unix ms."""
WallMs = Annotated[int, Meta(ge=1_577_836_800_000, le=LATEST_MS)]
"""Unix milliseconds between the years 2020 and 2100: a clock outside of these is a lie."""
Name = Annotated[str, Meta(min_length=1, max_length=128)]
Mark = Annotated[str, Meta(min_length=1, max_length=256)]
"""An id of a request or a boot, or a nonce: what checkpoints and tables keep many of, so that a lie can't fill them."""
TopicName = Annotated[str, Meta(min_length=1, max_length=249)]
"""As long as Kafka allows."""
MAX_SENTENCE = 1024
"""Characters of error text that a record takes, so that it can't grow with every retry."""
Sentence = Annotated[str, Meta(max_length=MAX_SENTENCE)]


def cut_sentence(text: str) -> Sentence:
    """Error text of any length as a record takes it: cut to MAX_SENTENCE characters."""
    return text[:MAX_SENTENCE]


class Payload(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """What the record's value is: plain or sealed bytes, or nothing when `reference` says where they are (claim check)."""

    size: Count
    encoding: Encoding = Encoding.NONE
    reference: str | None = None
    content_type: str = "application/json"

    @property
    def inline(self) -> bool:
        """Whether the bytes stand in the record's value itself."""
        return self.reference is None


class Origin(Struct, frozen=True, gc=False, array_like=True, order=True):
    """Where in `requests` the truth of a request stands. Travels with every command, report, attempt and result."""

    topic: TopicName
    partition: Port16
    offset: Count


class Usage(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """Tokens as the engine reported them; `estimated` when it didn't and they were counted from deltas."""

    prompt_tokens: Tokens = 0
    cached_tokens: Tokens = 0
    completion_tokens: Tokens = 0
    estimated: bool = False


class Times(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """When an attempt reached its stages, in Unix ms by the clock of who did it; None for a stage not reached."""

    dispatched_ms: WallMs | None = None
    started_ms: WallMs | None = None
    first_token_ms: WallMs | None = None
    finished_ms: WallMs | None = None


class Failure(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """What went wrong: the kind (one row of the failure table), a sentence, and the backend's own HTTP status if any."""

    kind: FailureKind
    message: Sentence = ""
    backend_status: Annotated[int, Meta(ge=100, le=599)] | None = None
    retry_after_ms: Count | None = None
