"""The records of `control.{pool}`: what others ask of the owner. Written by ingest, the CLI and result-delivery."""

from msgspec import Struct

from headrace.contracts.commands import CancelReason
from headrace.contracts.explanations import Quote
from headrace.contracts.selections import Find, Selection
from headrace.contracts.values import Count, Mark, Name, Port16, Priority, TopicName, WallMs


class CancelRequest(Struct, frozen=True, omit_defaults=True, kw_only=True, tag="cancel_request"):
    """A caller no longer wants this request. Applied exactly when the owner knows what became of it. `hop`: after the request
    it has been passed on to so many other pools.
    """

    id: Mark
    tenant: Name
    at_ms: WallMs
    reason: CancelReason = CancelReason.CALLER
    hop: Count = 0


class Query(Struct, frozen=True, omit_defaults=True, kw_only=True, tag="query"):
    """Where is this request? Answered by the owner on `replies`, partition `gateway`, with the same `nonce`.

    `hop` is as in CancelRequest. `why`: also, why isn't it running? `quote`, `find`: there is no such request; what would
    become of it, or which fit? An owner that doesn't know these three fields answers without them.
    """

    id: Mark
    nonce: Mark
    gateway: Port16
    hop: Count = 0
    why: bool = False
    quote: Quote | None = None
    find: Find | None = None


class DeliveryPosition(Struct, frozen=True, kw_only=True, tag="delivery_position"):
    """How far result-delivery has committed this topic: nothing from `next_offset` on may be trimmed."""

    topic: TopicName
    partition: Port16
    next_offset: Count


class DrainWorker(Struct, frozen=True, kw_only=True, tag="drain_worker"):
    """An operator takes a worker out of service, until UndrainWorker or its restart."""

    worker: Name


class UndrainWorker(Struct, frozen=True, kw_only=True, tag="undrain_worker"):
    """An operator puts a drained worker back into service."""

    worker: Name


class MovePool(Struct, frozen=True, kw_only=True, tag="move_pool"):
    """An operator gives the pool to another scheduler replica. Its owner obeys at once or, when it can't, not at all."""

    to: Name


class CancelMatching(Struct, frozen=True, omit_defaults=True, kw_only=True, tag="cancel_matching"):
    """An operator ends all requests that fit. The selection says before which offsets they stand, so that whoever reads the
    order again, later, ends no newer one; of writers that don't say it they were accepted before `before_ms`, Unix ms.
    """

    selection: Selection
    before_ms: WallMs


class Reprioritise(Struct, frozen=True, omit_defaults=True, kw_only=True, tag="reprioritise"):
    """An operator gives all requests that fit this priority among their tenant's own, at whatever stage they are. The
    selection says before which offsets they stand; of several orders that mean a request the newest counts.
    """

    selection: Selection
    priority: Priority


class MoveMatching(Struct, frozen=True, omit_defaults=True, kw_only=True, tag="move_matching"):
    """An operator lets the requests that fit, wait, and may, go to another pool. The selection says before which offsets they
    stand. `model`: a name that callers use there; needed where that pool has several and not the one that was asked for.
    """

    selection: Selection
    to: Name
    model: Name | None = None


class Freeze(Struct, frozen=True, omit_defaults=True, kw_only=True, tag="freeze"):
    """An operator holds back all requests of a tier, of a tenant, or of a tenant in a tier; neither given: of the pool. Until
    Thaw names the same.
    """

    tier: Name | None = None
    tenant: Name | None = None


class Thaw(Struct, frozen=True, omit_defaults=True, kw_only=True, tag="thaw"):
    """An operator lets those go on whom Freeze named so."""

    tier: Name | None = None
    tenant: Name | None = None


ControlRecord = (
    CancelRequest
    | Query
    | DeliveryPosition
    | DrainWorker
    | UndrainWorker
    | MovePool
    | CancelMatching
    | Reprioritise
    | MoveMatching
    | Freeze
    | Thaw
)
