"""The native routes that ask the pool's owner for reasons: why a request waits, and what another would meet.

Called by doors/app.py. Invariant: nothing is kept of a question, old answers are never told for new ones, and another
tenant's id is answered as if there were none.
"""

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from headrace.contracts.ids import RequestAddress
from headrace.ingest.doors.documents import Problem
from headrace.ingest.doors.front import Front, asked_by, body_of, front_of, seen_of, tenant_of
from headrace.ingest.doors.native_schema import quote_body
from headrace.ingest.doors.reason_documents import (
    QuoteDocument,
    WhyDocument,
    ended_why,
    quote_document,
    why_document,
)
from headrace.ingest.refusal import JSON_TYPE, PROBLEM_TYPE, Refusal

QUOTE, WHY = "/v1/quote", "/v1/requests/{request_id}/why"
_TRY_LATER = 5


def reasons_routes() -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["Requests"])
    router.add_api_route(
        WHY, why, methods=["GET"], response_model=WhyDocument,
        summary="Why a request isn't running yet", responses=_problems(401, 404, 410, 503),
    )  # fmt: skip
    router.add_api_route(
        QUOTE, quote, methods=["POST"], response_model=QuoteDocument,
        summary="What would become of a request; nothing is queued",
        openapi_extra=quote_body(), responses=_problems(400, 401, 403, 404, 413, 422, 503),
    )  # fmt: skip
    return router


async def why(request: Request, request_id: str) -> Response:
    """Who is ahead, which gates are closed by which limits, your share now, and what the estimate rests on.

    503 `owner_unavailable`: the pool has no owner just now, or it is silent.
    """
    tenant, front = tenant_of(request), front_of(request)
    address = front.ingest.address_of(request_id, tenant)
    seen_of(request).request_id, seen_of(request).tier = request_id, address.tier
    ended = await _ended(front, request_id, tenant)
    document = ended or await _asked(front, request_id, tenant, address)
    return _answer(document, ("X-Request-Id", request_id))


async def quote(request: Request) -> Response:
    """Wait, cost and whether it would be in time, in the tier asked for and in the others that you may use."""
    tenant, front = tenant_of(request), front_of(request)
    quoted = front.ingest.preparing.quote(asked_by(request, tenant, await body_of(request), None))
    seen_of(request).tier = quoted.quote.request.tier
    answer = await front.ingest.parts.owners.quote(quoted.quote)
    if answer is None:
        raise _no_owner(quoted.quote.request.pool)
    return _answer(quote_document(quoted, answer))


async def _asked(front: Front, request_id: str, tenant: str, address: RequestAddress) -> WhyDocument:
    answer = await front.ingest.parts.owners.why(request_id, address.pool)
    if answer is not None and answer.known:
        return why_document(request_id, address, answer)
    ended = await _ended(front, request_id, tenant)
    if ended is not None:
        return ended
    model = await front.ingest.noted_model(request_id, tenant, address, owner_knows=False)
    if answer is None:
        raise _no_owner(address.pool, request_id)
    return why_document(request_id, address, answer).model_copy(update={"model": model})


async def _ended(front: Front, request_id: str, tenant: str) -> WhyDocument | None:
    found = await front.ingest.result_of(request_id, tenant, body=False)
    return None if found is None else ended_why(found, front.ingest.parts.clock.now().wall_ms)


def _no_owner(pool: str, request_id: str | None = None) -> Refusal:
    silent = f"The pool {pool} has no owner just now, or it is silent: nobody knows how its queue stands."
    sentence = f"{silent} What was accepted is safe."
    return Refusal(503, "owner_unavailable", sentence, retry_after=_TRY_LATER, request_id=request_id)


def _answer(document: BaseModel, *headers: tuple[str, str]) -> Response:
    return Response(document.model_dump_json().encode(), 200, dict(headers), JSON_TYPE)


def _problems(*codes: int) -> dict[int | str, dict[str, Any]]:
    return {code: {"model": Problem, "content": {PROBLEM_TYPE: {}}} for code in codes}
