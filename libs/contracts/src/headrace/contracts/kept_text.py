"""What a stopped attempt had said, so that a later one goes on from there. Written by workers, passed on by the owner.

The bytes stand beside the record that says this: as the value of an attempts record, as the header TEXT_HEADER of a `run`.
Invariant: it only saves work; whoever lacks the bytes, can't open them or doesn't know the field begins anew.
"""

from typing import Annotated

from msgspec import Meta, Struct

from headrace.contracts.ids import AttemptId
from headrace.contracts.seal import Encoding

MAX_TEXT_BYTES = 128 * 1024
"""Some 32,000 tokens. What has come further would begin anew if it were stopped."""
MostSaid = Annotated[int, Meta(ge=0, le=MAX_TEXT_BYTES)]
"""Tokens or characters of a text: none is less than a byte, so that a lie about them can't starve a tenant."""
TEXT_HEADER = "headrace-text"
"""Beside `headrace` on a `run`: in the value an older worker would take it for the payload's."""


class KeptText(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The text of a request up to the moment when `attempt` was stopped, with what attempts before that had said.

    `size` in bytes as stored; `tokens` and `characters` of the whole text.
    """

    attempt: AttemptId
    size: Annotated[int, Meta(ge=1, le=MAX_TEXT_BYTES)]
    tokens: MostSaid
    characters: MostSaid
    encoding: Encoding = Encoding.NONE
