"""The native routes: submit, look, fetch, follow, cancel. Called by doors/app.py.

Invariant: errors are problem details (RFC 9457), and another tenant's id is answered as if there were none.
"""

import asyncio
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from headrace.contracts.ids import RequestAddress
from headrace.contracts.replies import Final
from headrace.ingest.decisions.native_events import event_id_from
from headrace.ingest.decisions.what_to_answer import what_result
from headrace.ingest.decisions.which_deadline import duration_or_refusal
from headrace.ingest.doors.documents import Problem, StatusDocument, ended_document, live_document
from headrace.ingest.doors.event_stream import EventStream, Followed, disconnected
from headrace.ingest.doors.front import Front, asked_by, body_of, front_of, seen_of, tenant_of
from headrace.ingest.doors.native_schema import submit_body
from headrace.ingest.ports import Listener, StoredResult
from headrace.ingest.refusal import JSON_TYPE, PROBLEM_TYPE, Refusal

LONGEST_WAIT = timedelta(seconds=60)
_AT_ONCE = (None, "0", "0s", "0ms")
_POLL_AGAIN = ("Retry-After", "1")
NATIVE = "/v1/requests"
_ID_PATH = NATIVE + "/{request_id}"


def native_routes() -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["Requests"])
    add, document = router.add_api_route, StatusDocument
    add(NATIVE, submit, methods=["POST"], status_code=202, response_model=document,
        summary="Submit a request and come back for its answer",
        openapi_extra=submit_body(), responses=_problems(400, 401, 403, 404, 413, 422, 429, 503))  # fmt: skip
    add(_ID_PATH, status, methods=["GET"], response_model=document,
        summary="Where a request is", responses=_problems(401, 404, 410, 422, 503))  # fmt: skip
    add(f"{_ID_PATH}/result", result, methods=["GET"], response_class=Response,
        summary="The answer, as the backend gave it", responses={
            202: {"model": document, "description": "Still going"}, **_problems(401, 404, 409, 410, 502, 503, 504),
        })  # fmt: skip
    add(f"{_ID_PATH}/events", events, methods=["GET"], response_class=Response,
        summary="A request's life as server-sent events: status, text, restart, end",
        responses={200: {"content": {"text/event-stream": {}}}, **_problems(401, 404, 410, 422, 503)})  # fmt: skip
    add(f"{_ID_PATH}/cancel", cancel, methods=["POST"], status_code=202, response_model=document,
        summary="Cancel a request",
        responses={
            200: {"model": document, "description": "It has ended already"}, **_problems(401, 404, 410, 503),
        })  # fmt: skip
    return router


async def submit(request: Request) -> Response:
    """Takes OpenAI's body (with `messages` or `prompt`) and, in `headrace`, what is said to the queue alone.

    202 means kept: the log has acknowledged it.
    """
    tenant, front = tenant_of(request), front_of(request)
    prepared = front.ingest.prepare(asked_by(request, tenant, await body_of(request), None))
    seen, record = seen_of(request), prepared.record
    seen.tier, seen.request_id = record.tier, record.id
    await front.ingest.accept(prepared)
    address = RequestAddress(record.pool, record.tier, record.partition, record.accepted_ms)
    document = live_document(record.id, address, None, now_ms=record.accepted_ms, model=prepared.model)
    return _document(document, 202, ("Location", document.links.self), _POLL_AGAIN)


async def status(
    request: Request,
    request_id: str,
    wait: Annotated[
        str | None, Query(description="answer when it has ended, or after this long: 30s")
    ] = None,
) -> Response:
    """The status document. With `wait` (at most 60 s) it comes when the request has ended, or after that time."""
    tenant, front = tenant_of(request), front_of(request)
    patience = None if wait in _AT_ONCE else duration_or_refusal(wait, "wait")
    address = front.ingest.address_of(request_id, tenant)
    seen_of(request).request_id, seen_of(request).tier = request_id, address.tier
    with front.ingest.parts.replies.listen(request_id) as listener:
        found = await front.ingest.result_of(request_id, tenant, body=False)
        if (
            found is None
            and patience is not None
            and await _ends(front, request, listener, min(patience, LONGEST_WAIT))
        ):
            found = await front.ingest.result_of(request_id, tenant, body=False)
    if found is not None:
        return _document(ended_document(found), 200)
    return await _live(front, request_id, tenant, address, 200)


async def result(request: Request, request_id: str) -> Response:
    """The stored body with its own content type. X-Headrace-Status says how the request ended.

    Succeeded: 200 and the body. Failed: the stored status and body. Cancelled with a partial answer: 200 and
    X-Headrace-Partial; without one: 409. Not ended yet: 202 and the status document.
    """
    tenant, front = tenant_of(request), front_of(request)
    address = front.ingest.address_of(request_id, tenant)
    seen_of(request).request_id = request_id
    found = await front.ingest.result_of(request_id, tenant, body=True)
    if found is None:
        return await _live(front, request_id, tenant, address, 202)
    answer = what_result(found.ended)
    headers = {"X-Headrace-Status": found.ended.status.value, "X-Request-Id": request_id} | answer.headers
    if found.ended.partial:
        headers["X-Headrace-Partial"] = "true"
    return Response(answer.body, answer.status, headers | {"Content-Type": answer.content_type})


async def events(request: Request, request_id: str) -> Response:
    """`status` (the status document), `text` ({choice, text}), `restart` (forget the text so far), `end` (the status
    document). Go on after a lost connection with Last-Event-ID; comments come each 15 s.
    """
    tenant, front = tenant_of(request), front_of(request)
    address = front.ingest.address_of(request_id, tenant)
    seen_of(request).request_id = request_id
    await front.ingest.check_kept(request_id, tenant, address)
    resumed = event_id_from(request.headers.get("last-event-id"))
    if resumed is not None and resumed.partition >= front.ingest.parts.policy.topics.gateways:
        raise Refusal(422, "invalid_event_id", "Last-Event-ID takes an id that an event of this stream had.")
    return EventStream(front, Followed(request_id, tenant, address, resumed))


async def cancel(request: Request, request_id: str) -> Response:
    """202: the cancellation is kept and will be carried out, unless the request ends first. 200: it has ended."""
    tenant, front = tenant_of(request), front_of(request)
    address = front.ingest.address_of(request_id, tenant)
    seen_of(request).request_id = request_id
    found = await front.ingest.result_of(request_id, tenant, body=False)
    if found is not None:
        return _document(ended_document(found), 200)
    await front.ingest.cancel(request_id, tenant=tenant, pool=address.pool)
    return await _live(front, request_id, tenant, address, 202)


async def _ends(front: Front, request: Request, listener: Listener, patience: timedelta) -> bool:
    """Whether the request ends within this time, and before this replica stops or the caller leaves."""
    ending = asyncio.ensure_future(_final(listener))
    others = {
        asyncio.ensure_future(front.stopping.wait()),
        asyncio.ensure_future(disconnected(request.receive)),
    }
    seconds = patience.total_seconds()
    try:
        await asyncio.wait({ending, *others}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return ending.done()
    finally:
        for each in (ending, *others):
            each.cancel()


async def _final(listener: Listener) -> None:
    while not isinstance((await listener.next()).record, Final):
        pass


async def _live(front: Front, request_id: str, tenant: str, address: RequestAddress, code: int) -> Response:
    """The document of a request that hadn't ended a moment ago."""
    answer = await front.ingest.parts.owners.ask(request_id, address.pool)
    found: StoredResult | None = None
    model: str | None = None
    known = answer is not None and answer.known
    if not known:
        found = await front.ingest.result_of(request_id, tenant, body=False)
    if found is not None and code == 200:
        return _document(ended_document(found), 200)
    if not known and found is None:
        model = await front.ingest.noted_model(request_id, tenant, address, owner_knows=False)
    now_ms = front.ingest.parts.clock.now().wall_ms
    return _document(
        live_document(request_id, address, answer, now_ms=now_ms, model=model), code, _POLL_AGAIN
    )


def _document(document: StatusDocument, code: int, *headers: tuple[str, str]) -> Response:
    return Response(document.to_json(), code, dict(headers) | {"X-Request-Id": document.id}, JSON_TYPE)


def _problems(*codes: int) -> dict[int | str, dict[str, Any]]:
    return {code: {"model": Problem, "content": {PROBLEM_TYPE: {}}} for code in codes}
