"""OpenAI's routes: any OpenAI client works with a base URL and a key. Called by doors/app.py.

Invariant: answers and errors here have OpenAI's shapes, whatever went wrong.
"""

import msgspec
from fastapi import APIRouter, Request, Response

from headrace.ingest.decisions.read_submission import CHAT, COMPLETIONS
from headrace.ingest.doors.front import asked_by, body_of, front_of, seen_of, tenant_of
from headrace.ingest.doors.streaming import StreamingAnswer
from headrace.ingest.doors.waiting import WaitingAnswer
from headrace.ingest.refusal import JSON_TYPE, Refusal

_OWNER = "headrace"


def openai_routes() -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["OpenAI"])
    add = router.add_api_route
    add(CHAT, chat_completions, methods=["POST"], summary="A chat completion, waiting or streaming",
        response_class=Response, openapi_extra=_body(["model", "messages"]))  # fmt: skip
    add(COMPLETIONS, completions, methods=["POST"], summary="A text completion, waiting or streaming",
        response_class=Response, openapi_extra=_body(["model", "prompt"]))  # fmt: skip
    add("/v1/models", models, methods=["GET"], summary="The models you may use", response_class=Response)
    add("/v1/models/{model:path}", model, methods=["GET"], summary="One model", response_class=Response)
    return router


async def chat_completions(request: Request) -> Response:
    """OpenAI's chat completions. The answer is the backend's, byte for byte; X-Request-Id is the request's id here."""
    return await _submitted(request, CHAT)


async def completions(request: Request) -> Response:
    """OpenAI's text completions."""
    return await _submitted(request, COMPLETIONS)


async def models(request: Request) -> Response:
    """The models of all pools."""
    tenant_of(request)
    found = [_model(name) for name in _names(request)]
    return Response(msgspec.json.encode({"object": "list", "data": found}), media_type=JSON_TYPE)


async def model(request: Request, model: str) -> Response:
    """One model by its name."""
    tenant_of(request)
    if model not in _names(request):
        raise Refusal(404, "model_not_found", f"The model {model[:128]!r} does not exist.", pointer="/model")
    return Response(msgspec.json.encode(_model(model)), media_type=JSON_TYPE)


async def _submitted(request: Request, route: str) -> Response:
    tenant = tenant_of(request)
    front = front_of(request)
    prepared = front.ingest.prepare(asked_by(request, tenant, await body_of(request), route))
    seen = seen_of(request)
    seen.tier, seen.request_id = prepared.record.tier, prepared.record.id
    held = StreamingAnswer if prepared.record.stream else WaitingAnswer
    return held(front, prepared)


def _names(request: Request) -> list[str]:
    pools = front_of(request).ingest.parts.policy.pools.values()
    return sorted(name for pool in pools for name in pool.models)


def _model(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": 0, "owned_by": _OWNER}


def _body(required: list[str]) -> dict[str, object]:
    schema = {
        "type": "object",
        "required": required,
        "properties": {"model": {"type": "string"}, "stream": {"type": "boolean"}},
        "additionalProperties": True,
        "description": "OpenAI's body; fields that headrace doesn't know go to the backend unchanged.",
    }
    return {"requestBody": {"required": True, "content": {JSON_TYPE: {"schema": schema}}}}
