"""One spilled request as bytes: what decisions need of it, without its payload. Used by state.spilled.

It begins with its place in its tenant's order, so that two records compare as their requests do; then comes its cost; the
rest is msgpack. What many share (tenant, tier, model, route) stands in a table. Invariant: what is unpacked equals what was
packed, but for what only the log has: payload, trace, metadata.
"""

import struct
from collections.abc import Hashable
from hashlib import blake2b
from typing import Generic, NamedTuple, TypeVar

import msgspec

from headrace.bus.messages import Place
from headrace.contracts.requests import RequestRecord
from headrace.contracts.selections import Stage
from headrace.contracts.values import Origin, Payload
from headrace.scheduler.decisions.does_it_fit import Facts
from headrace.scheduler.decisions.pick_next import OrderKey, priority_of, times_of
from headrace.scheduler.state.tracked import Phase, Tracked

_COST = struct.Struct(">Q")
_ORDER_BYTES = 32
_NOT_NEGATIVE = 2**31 << 192
"""Added to an order, so that the least priority is no negative number."""
_KEY_BITS = 60
"""An int of so many takes 32 bytes; of more it would take 48."""
T = TypeVar("T", bound=Hashable)


class Shape(NamedTuple):
    """What many requests have in common."""

    tenant: str
    pool: str
    tier: str
    model: str
    route: str
    answer: str | None
    through: tuple[str, ...]


class _Rest(msgspec.Struct, frozen=True, array_like=True):
    """`place`, `shape`: numbers in tables; `size`: bytes of the payload; `flags`: see `_flags_of`; `flow`: see Tracked."""

    place: int
    shape: int
    id: str
    size: int
    gateway: int
    flags: int
    start_by_ms: int | None
    finish_by_ms: int | None
    prompt_tokens: int
    max_tokens: int | None
    choices: int
    sequences: int
    media: int
    hop: int
    fairness_key: str | None
    flow: int


class Stub(NamedTuple):
    """Where a spilled request stands in the log. `size`: bytes of its payload."""

    id: str
    place: Place
    offset: int
    size: int


_ENCODER, _DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(_Rest)


def key_of(request_id: str) -> int:
    """A number for an id: the same in every process, unlike Python's own hash."""
    digest = blake2b(request_id.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> (64 - _KEY_BITS)


def charge_of(packed: bytes) -> int:
    """What it is expected to cost, in micro service units."""
    cost: int = _COST.unpack_from(packed, _ORDER_BYTES)[0]
    return cost


def order_of_packed(packed: bytes) -> OrderKey:
    """Where it stands inside its tenant."""
    return int.from_bytes(packed[:_ORDER_BYTES], "big") - _NOT_NEGATIVE


def key_of_order(order: OrderKey) -> bytes:
    """All that is packed of requests that go before this one is less, and of those that go after it greater."""
    return (order + _NOT_NEGATIVE).to_bytes(_ORDER_BYTES, "big")


def with_order(packed: bytes, order: OrderKey) -> bytes:
    """The same at another place in its tenant's order."""
    return key_of_order(order) + packed[_ORDER_BYTES:]


class Table(Generic[T]):
    """Numbers for what many records share, each kept as long as any record has it."""

    def __init__(self) -> None:
        self._numbers: dict[T, int] = {}
        self._members: dict[int, tuple[T, int]] = {}
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._members)

    def __getitem__(self, number: int) -> T:
        return self._members[number][0]

    def enter(self, member: T) -> int:
        """Its number; one more record has it."""
        number = self._numbers.get(member)
        if number is None:
            number = self._free.pop() if self._free else len(self._members)
            self._numbers[member], self._members[number] = number, (member, 0)
        known, count = self._members[number]
        self._members[number] = known, count + 1
        return number

    def leave(self, number: int) -> None:
        """One record less has it."""
        member, count = self._members[number]
        if count > 1:
            self._members[number] = member, count - 1
        else:
            del self._numbers[member], self._members[number]
            self._free.append(number)


class Packing:
    """Packs and unpacks, with the tables that this needs."""

    def __init__(self) -> None:
        self._places: Table[Place] = Table()
        self._shapes: Table[Shape] = Table()

    def pack(self, tracked: Tracked) -> bytes | None:
        """As bytes; None: a number in it is too large. Call `forget` once they aren't needed any more."""
        record, origin = tracked.record, tracked.origin
        shape = Shape(
            record.tenant, record.pool, record.tier, record.model, record.route, record.answer, record.through
        )
        rest = _Rest(
            place=self._places.enter(Place(origin.topic, origin.partition)),
            shape=self._shapes.enter(shape),
            id=record.id,
            size=len(tracked.value),
            gateway=record.gateway,
            flags=_flags_of(record),
            start_by_ms=record.start_by_ms,
            finish_by_ms=record.finish_by_ms,
            prompt_tokens=record.prompt_tokens,
            max_tokens=record.max_tokens,
            choices=record.choices,
            sequences=record.sequences,
            media=record.media,
            hop=record.hop,
            fairness_key=record.fairness_key,
            flow=tracked.flow,
        )
        try:
            head = key_of_order(tracked.order) + _COST.pack(tracked.charge)
        except (struct.error, OverflowError):
            self._places.leave(rest.place)
            self._shapes.leave(rest.shape)
            return None
        return head + _ENCODER.encode(rest)

    def unpack(self, packed: bytes) -> Tracked:
        """As it waited, without its payload."""
        order, rest = order_of_packed(packed), _rest_of(packed)
        shape, place = self._shapes[rest.shape], self._places[rest.place]
        _, accepted_ms, offset = times_of(order)
        waits, stream, plain_text, sends_usage, stays = (bool(rest.flags >> bit & 1) for bit in range(5))
        record = RequestRecord(
            id=rest.id,
            partition=place.partition,
            accepted_ms=accepted_ms,
            payload=Payload(size=rest.size),
            gateway=rest.gateway,
            waits=waits,
            stream=stream,
            sends_usage=sends_usage,
            stays=stays,
            plain_text=plain_text,
            prompt_tokens=rest.prompt_tokens,
            max_tokens=rest.max_tokens,
            choices=rest.choices,
            sequences=rest.sequences,
            media=rest.media,
            priority=priority_of(order),
            fairness_key=rest.fairness_key,
            start_by_ms=rest.start_by_ms,
            finish_by_ms=rest.finish_by_ms,
            hop=rest.hop,
            **shape._asdict(),
        )
        return Tracked(
            record=record,
            origin=Origin(*place, offset),
            received=None,
            trace=(),
            order=order,
            charge=charge_of(packed),
            phase=Phase.WAITING,
            start_by_ms=rest.start_by_ms,
            flow=rest.flow,
        )

    def stub(self, packed: bytes) -> Stub:
        """Where it stands."""
        rest = _rest_of(packed)
        return Stub(rest.id, self._places[rest.place], times_of(order_of_packed(packed))[2], rest.size)

    def facts(self, packed: bytes) -> Facts:
        """What an operator may ask for. Costs a tenth of unpacking it."""
        rest = _rest_of(packed)
        shape = self._shapes[rest.shape]
        order = order_of_packed(packed)
        _, accepted_ms, offset = times_of(order)
        origin, priority = Origin(*self._places[rest.place], offset), priority_of(order)
        return Facts(
            rest.id, shape.tenant, shape.tier, shape.model, accepted_ms, Stage.QUEUED, origin, priority
        )

    def whose(self, packed: bytes) -> tuple[str, str, int]:
        """Its tier, tenant and flow."""
        rest = _rest_of(packed)
        shape = self._shapes[rest.shape]
        return shape.tier, shape.tenant, rest.flow

    def forget(self, packed: bytes) -> None:
        """These bytes aren't needed any more."""
        rest = _rest_of(packed)
        self._places.leave(rest.place)
        self._shapes.leave(rest.shape)


def id_in(packed: bytes) -> str:
    """Whose record this is."""
    return _rest_of(packed).id


def _rest_of(packed: bytes) -> _Rest:
    return _DECODER.decode(memoryview(packed)[_ORDER_BYTES + _COST.size :])


def _flags_of(record: RequestRecord) -> int:
    flags = record.waits, record.stream, record.plain_text, record.sends_usage, record.stays
    return sum(flag << bit for bit, flag in enumerate(flags))
