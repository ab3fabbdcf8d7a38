"""What `why` and `quote` say, as models for the API's description and for the answers themselves.

Invariant: of other tenants there are numbers only; what isn't known is null.
"""

from datetime import UTC, datetime

from pydantic import BaseModel, Field

from headrace.contracts.explanations import (
    GATES,
    Ahead,
    Basis,
    Closed,
    Gate,
    LengthFrom,
    Misses,
    Offer,
    RateFrom,
    Share,
    Why,
)
from headrace.contracts.ids import RequestAddress
from headrace.contracts.lifecycle import Status
from headrace.contracts.replies import Answer
from headrace.ingest.doors.documents import Estimate, Links, estimate_of, links_of
from headrace.ingest.ports import StoredResult
from headrace.ingest.preparing import Quoted


class GateDocument(BaseModel):
    """A closed gate. `limit` and `used` where it counts something, `opens_at` where it opens by the clock."""

    gate: Gate
    message: str
    limit: int | None = None
    used: int | None = None
    opens_at: datetime | None = None


class AheadDocument(BaseModel):
    """What would be released before it if nothing more came."""

    yours: int = Field(description="your own requests in its tier")
    others: int = Field(description="requests of other tenants in its tier, about")
    tenants: int = Field(description="of so many other tenants")
    by_tier: dict[str, int] = Field(description="all that goes before it, by tier, about")
    cost: int = Field(description="of all that, in service units")
    exact: bool = Field(description="false where so much waits that samples were counted")


class ShareDocument(BaseModel):
    """Your part of the pool's work in its tier."""

    by_weight: float = Field(description="0 to 1: what you get of it while those wait who wait now")
    of_tier: float = Field(description="0 to 1: what the whole tier gets")
    weight: int
    weight_of_all: int = Field(description="of the tenants that wait in its tier, you included")
    got: float = Field(description="0 to 1: what you got of all that was served in the last 30 s")
    served_per_second: float = Field(description="what you were served, in service units")
    pool_per_second: float
    in_flight: int = Field(description="your attempts at workers, in its tier")


class BasisDocument(BaseModel):
    """What an estimate rests on."""

    prompt_tokens: int
    answer_tokens: int = Field(description="expected of each choice, in the mean")
    most_answer_tokens: int = Field(description="9 in 10 are no longer")
    length_from: LengthFrom = Field(
        description="answers to your like requests, of the model, the pool's default, or your cap"
    )
    answers: int = Field(description="answers that this was learnt from, as far as they count")
    choices: int
    max_tokens: int | None = Field(None, description="your cap on all choices together")
    cost: int = Field(description="what it is charged, in service units")
    takes_seconds: float | None = Field(
        None, description="from its start to its end, at the pool's present pace"
    )
    takes_at_most_seconds: float | None = Field(None, description="for the longer answer")
    rate_per_second: float = Field(description="what you are expected to be served, in service units")
    rate_from: RateFrom = Field(
        description="what you were served lately, or your share of what the pool served"
    )


class WhyDocument(BaseModel):
    """Why a request isn't running. `gates` empty: it only waits for its turn, or runs, or has ended."""

    id: str
    status: Status | None = Field(description="null while its owner doesn't know it")
    tier: str
    model: str | None = None
    position: int | None = Field(None, description="requests ahead of it in your queue of this tier")
    estimate: Estimate | None = None
    gates: list[GateDocument] = Field(description="the closed ones, in the order in which they are asked")
    ahead: AheadDocument | None = None
    share: ShareDocument | None = None
    basis: BasisDocument | None = None
    as_of: datetime
    links: Links


class OfferDocument(BaseModel):
    """What would become of it in one tier, if it came now."""

    tier: str
    feasible: bool | None = Field(None, description="null: nobody knows yet how fast you are served")
    misses: str | None = Field(
        None,
        description="queue_timeout or deadline: what it wouldn't keep; queue_full or pool_full: it would be refused",
    )
    wait_seconds: float | None = Field(None, description="until it starts, in half of all cases")
    wait_seconds_p95: float | None = Field(
        None, description="in 19 of 20; null: nobody knows yet how far off estimates are"
    )
    ends_in_seconds: float | None = Field(
        None, description="by when 9 in 10 like it have ended: the shortest deadline that makes sense"
    )
    cost: int = Field(description="what it would be charged, in service units")
    gates: list[GateDocument]
    ahead: AheadDocument | None = None
    share: ShareDocument | None = None
    basis: BasisDocument | None = None


class QuoteDocument(OfferDocument):
    """The tier that was asked for, and the others that you may use."""

    model: str
    alternatives: list[OfferDocument]
    as_of: datetime


def why_document(request_id: str, address: RequestAddress, answer: Answer) -> WhyDocument:
    """As its owner said it."""
    why = answer.why or Why()
    return WhyDocument(
        id=request_id,
        status=answer.status,
        tier=address.tier,
        model=answer.model,
        position=answer.position,
        estimate=estimate_of(answer),
        gates=[_gate(closed) for closed in why.closed],
        ahead=_ahead(why.ahead),
        share=_share(why.share),
        basis=_basis(why.basis),
        as_of=_instant(answer.as_of_ms),
        links=links_of(request_id),
    )


def ended_why(result: StoredResult, now_ms: int) -> WhyDocument:
    """Of a request with a result: nothing keeps it any more."""
    return WhyDocument(
        id=result.ended.id,
        status=result.ended.status,
        tier=result.tier,
        model=result.model,
        gates=[],
        as_of=_instant(now_ms),
        links=links_of(result.ended.id),
    )


def quote_document(quoted: Quoted, answer: Answer) -> QuoteDocument:
    """The owner's offers, and what the door says."""
    offers = [_offer(offer, quoted) for offer in answer.offers]
    first = next((each for each in offers if each.tier == quoted.quote.request.tier), offers[0])
    rest = [each for each in offers if each is not first]
    return QuoteDocument(
        **dict(first), model=quoted.model, alternatives=rest, as_of=_instant(answer.as_of_ms)
    )


def _offer(offer: Offer, quoted: Quoted) -> OfferDocument:
    refused, why, basis = quoted.refused.get(offer.tier), offer.why, offer.why.basis
    most_ms = None if basis is None else basis.takes_most_ms
    ends_ms = None if offer.wait_ms is None or most_ms is None else offer.wait_ms + most_ms
    misses: Misses | str | None = offer.misses if refused is None else refused.code
    return OfferDocument(
        tier=offer.tier,
        feasible=offer.feasible if refused is None else False,
        misses=misses,
        wait_seconds=_seconds(offer.wait_ms),
        wait_seconds_p95=_seconds(offer.wait_p95_ms),
        ends_in_seconds=_seconds(ends_ms),
        cost=0 if basis is None else basis.cost,
        gates=[_gate(closed) for closed in why.closed],
        ahead=_ahead(why.ahead),
        share=_share(why.share),
        basis=_basis(basis),
    )


def _gate(closed: Closed) -> GateDocument:
    opens = None if closed.until_ms is None else _instant(closed.until_ms)
    return GateDocument(
        gate=closed.gate, message=GATES[closed.gate], limit=closed.limit, used=closed.used, opens_at=opens
    )


def _ahead(ahead: Ahead | None) -> AheadDocument | None:
    if ahead is None:
        return None
    return AheadDocument(
        yours=ahead.own,
        others=ahead.others,
        tenants=ahead.tenants,
        by_tier=ahead.tiers,
        cost=ahead.cost,
        exact=ahead.exact,
    )


def _share(share: Share | None) -> ShareDocument | None:
    if share is None:
        return None
    return ShareDocument(
        by_weight=share.part_permille / 1000,
        of_tier=share.tier_permille / 1000,
        weight=share.weight,
        weight_of_all=share.waiting_weight,
        got=share.got_permille / 1000,
        served_per_second=share.served_milli / 1000,
        pool_per_second=share.pool_served_milli / 1000,
        in_flight=share.in_flight,
    )


def _basis(basis: Basis | None) -> BasisDocument | None:
    if basis is None:
        return None
    return BasisDocument(
        prompt_tokens=basis.prompt_tokens,
        answer_tokens=basis.answer_tokens,
        most_answer_tokens=basis.most_answer_tokens,
        length_from=basis.length_from,
        answers=basis.answers,
        choices=basis.choices,
        max_tokens=basis.max_tokens,
        cost=basis.cost,
        takes_seconds=_seconds(basis.takes_ms),
        takes_at_most_seconds=_seconds(basis.takes_most_ms),
        rate_per_second=basis.rate_milli / 1000,
        rate_from=basis.rate_from,
    )


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _instant(wall_ms: int) -> datetime:
    return datetime.fromtimestamp(wall_ms / 1000, UTC)
