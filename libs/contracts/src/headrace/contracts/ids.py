"""Request, attempt and boot ids. Minted by ingest, the scheduler and workers; verified by ingest on every read.

Invariant: a request id names its pool, tier and partition, and carries a MAC over these and the tenant, so that any replica
can tell a genuine id of this tenant from a forged or a foreign one without asking anybody.
"""

import hmac
import re
from base64 import b32encode
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Annotated, NamedTuple

from msgspec import Meta

REQUEST_PREFIX = "req_"
MAX_NAME = 32
_UUID_BYTES, _MAC_BYTES, _RANDOM_BYTES = 16, 10, 10
_MIN_BYTES = _UUID_BYTES + 2 + 1 + 1 + _MAC_BYTES
_BASE32 = re.compile(r"req_([a-z2-7]+)", re.ASCII)
_AS_DIGITS = str.maketrans("abcdefghijklmnopqrstuvwxyz234567", "0123456789abcdefghijklmnopqrstuv")
"""RFC 4648's base32 to the digits of a number to base 32, which C reads: base64.b32decode takes 30 times as long, and the
scheduler reads two ids for each request.
"""


class MalformedIdError(ValueError):
    """The text is not a request id at all."""


_Number = Annotated[int, Meta(ge=0, le=2**53)]


class AttemptId(NamedTuple):
    """One try at a request: (owner's epoch, sequence). Unique and growing within a pool: the fencing token."""

    epoch: _Number
    sequence: _Number

    def __str__(self) -> str:
        return f"{self.epoch}.{self.sequence}"


@dataclass(frozen=True, slots=True)
class RequestAddress:
    """What a request id says: where the request lives. `accepted_ms` is the Unix time of its UUIDv7."""

    pool: str
    tier: str
    partition: int
    accepted_ms: int


def uuid7(wall_ms: int, random: bytes) -> bytes:
    """The 16 bytes of a UUIDv7 (RFC 9562, 5.7) from Unix milliseconds and 10 random bytes."""
    if len(random) != _RANDOM_BYTES:
        raise ValueError(f"a UUIDv7 takes {_RANDOM_BYTES} random bytes, got {len(random)}")
    tail = bytearray(random)
    tail[0] = 0x70 | tail[0] & 0x0F
    tail[2] = 0x80 | tail[2] & 0x3F
    return wall_ms.to_bytes(6, "big") + bytes(tail)


def boot_id(wall_ms: int, random: bytes) -> str:
    """A worker's boot: a UUIDv7 as 32 hex digits; of two boots of one name the lesser text is the older."""
    return uuid7(wall_ms, random).hex()


def mint_request_id(
    key: bytes, *, tenant: str, pool: str, tier: str, partition: int, wall_ms: int, random: bytes
) -> str:
    """`req_` + lower-case base32 of (UUIDv7, partition, pool, tier, MAC). Raises ValueError on an overlong name."""
    body = uuid7(wall_ms, random) + _place(pool, tier, partition)
    return REQUEST_PREFIX + b32encode(body + _mac(key, body, tenant)).decode().rstrip("=").lower()


def read_request_id(request_id: str) -> RequestAddress:
    """What the id says of itself, unverified. Raises MalformedIdError."""
    return _address(_body_and_mac(request_id)[0])


def names_place(request_id: str, *, pool: str, tier: str, partition: int) -> bool:
    """Whether the id says, unverified, that its request lives there; false where it is no request id at all."""
    try:
        body, _ = _body_and_mac(request_id)
        return body[_UUID_BYTES:] == _place(pool, tier, partition)
    except ValueError:
        return False


def names_other_pool(request_id: str, *, pool: str, tier: str, partition: int) -> bool:
    """Whether the id says, unverified, that its request came into another pool, there to the same tier and partition."""
    try:
        address = read_request_id(request_id)
    except MalformedIdError:
        return False
    return address.pool != pool and (address.tier, address.partition) == (tier, partition)


def verify_request_id(key: bytes, request_id: str, tenant: str) -> RequestAddress | None:
    """The address of a genuine id of this tenant; None for a malformed, forged or foreign one."""
    try:
        body, mac = _body_and_mac(request_id)
        address = _address(body)
    except MalformedIdError:
        return None
    return address if hmac.compare_digest(mac, _mac(key, body, tenant)) else None


@lru_cache(maxsize=4096)
def _place(pool: str, tier: str, partition: int) -> bytes:
    return partition.to_bytes(2, "big") + _name(pool) + _name(tier)


def _name(name: str) -> bytes:
    raw = name.encode()
    if not 1 <= len(raw) <= MAX_NAME:
        raise ValueError(f"a pool's or tier's name has 1..{MAX_NAME} bytes, got {name!r}")
    return bytes([len(raw)]) + raw


def _mac(key: bytes, body: bytes, tenant: str) -> bytes:
    return hmac.digest(key, body + tenant.encode(), sha256)[:_MAC_BYTES]


def _body_and_mac(request_id: str) -> tuple[bytes, bytes]:
    found = _BASE32.fullmatch(request_id)
    if found is None:
        raise MalformedIdError(f"not a request id: {request_id[:100]!r}")
    digits = found[1]
    size, spare = divmod(5 * len(digits), 8)
    number = int(digits.translate(_AS_DIGITS), 32)
    if size < _MIN_BYTES or spare >= 5 or number & (1 << spare) - 1:  # another text for the same bytes
        raise MalformedIdError(f"not a request id: {request_id[:100]!r}")
    raw = (number >> spare).to_bytes(size, "big")
    return raw[:-_MAC_BYTES], raw[-_MAC_BYTES:]


def _address(body: bytes) -> RequestAddress:
    names, rest = [], body[_UUID_BYTES + 2 :]
    for _ in ("pool", "tier"):
        size = rest[0] if rest else 0
        names.append(rest[1 : 1 + size])
        rest = rest[1 + size :]
    try:
        pool, tier = (name.decode() for name in names)
    except UnicodeDecodeError as error:
        raise MalformedIdError("a request id's names are not UTF-8") from error
    if rest or not pool or not tier:
        raise MalformedIdError("a request id's length and its names disagree")
    partition = int.from_bytes(body[_UUID_BYTES : _UUID_BYTES + 2], "big")
    return RequestAddress(pool, tier, partition, int.from_bytes(body[:6], "big"))
