"""The application: all routes, both faces of an error, probes, and the API's description.

Made by wiring.py. Invariant: every answer under /v1 that isn't a success has the face of the door that was knocked at.
"""

import msgspec
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from headrace.ingest.doors.front import Front, front_of
from headrace.ingest.doors.native import native_routes
from headrace.ingest.doors.observed import Observed
from headrace.ingest.doors.openai import openai_routes
from headrace.ingest.refusal import JSON_TYPE, PROBLEM_TYPE, Refusal, as_openai, as_problem
from headrace.runtime.health import Trouble

_NATIVE = "/v1/requests"
_CODES = {404: "route_not_found", 405: "method_not_allowed"}


def build_app(front: Front) -> FastAPI:
    """The application of one replica."""
    app = described()
    app.state.front = front
    app.add_exception_handler(Refusal, _on_refusal)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_middleware(Observed, telemetry=front.telemetry, max_open=front.settings.max_open, face=face_of)
    return app


def face_of(path: str, refusal: Refusal) -> Response:
    """A refusal as the door at this path tells it."""
    native = path == _NATIVE or path.startswith(f"{_NATIVE}/") or not path.startswith("/v1/")
    body, kind = (as_problem(refusal), PROBLEM_TYPE) if native else (as_openai(refusal), JSON_TYPE)
    response = Response(body, refusal.status, media_type=kind)
    for name, value in refusal.http_headers():
        response.headers[name] = value
    return response


def described() -> FastAPI:
    """All routes, with nothing behind them yet."""
    app = FastAPI(
        title="headrace",
        version="1",
        summary="The durable, fair queue in front of LLM backends.",
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
    )
    app.include_router(native_routes())
    app.include_router(openai_routes())
    app.add_api_route("/livez", livez, methods=["GET"], summary="Whether its loops turn", tags=["Probes"])
    app.add_api_route(
        "/readyz", readyz, methods=["GET"], summary="Whether it takes requests", tags=["Probes"]
    )
    return app


async def livez(request: Request) -> Response:
    """200, or 503 with what stands still."""
    return _judged(front_of(request).telemetry.health.verdict().not_live)


async def readyz(request: Request) -> Response:
    """200, or 503 with what isn't ready."""
    return _judged(front_of(request).telemetry.health.verdict().not_ready)


def _judged(troubles: tuple[Trouble, ...]) -> Response:
    return Response(
        msgspec.json.encode({"components": troubles}), 503 if troubles else 200, media_type=JSON_TYPE
    )


async def _on_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return face_of(request.url.path, error)


async def _on_http_error(request: Request, error: Exception) -> Response:
    """What the router itself refuses: unknown routes and methods."""
    assert isinstance(error, HTTPException)
    code = _CODES.get(error.status_code, "bad_request")
    sentence = f"There is no {request.method} {request.url.path[:200]}."
    headers = tuple((error.headers or {}).items())
    return face_of(request.url.path, Refusal(error.status_code, code, sentence, headers=headers))
