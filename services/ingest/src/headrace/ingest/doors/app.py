"""The application: all routes, both faces of an error, probes, and the API's description.

Made by wiring.py. Invariant: every answer under /v1 that isn't a success has the face of the door that was knocked at.
"""

from collections.abc import Awaitable, Callable, Mapping

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.ingest.decisions.read_submission import CHAT, COMPLETIONS
from headrace.ingest.doors.front import Front, front_of, seen_of
from headrace.ingest.doors.native import NATIVE, native_routes, submit
from headrace.ingest.doors.observed import Observed, mistake
from headrace.ingest.doors.openai import chat_completions, completions, openai_routes
from headrace.ingest.doors.reasons import QUOTE, reasons_routes
from headrace.ingest.refusal import JSON_TYPE, PROBLEM_TYPE, Refusal, as_openai, as_problem
from headrace.runtime.probes import answer

_CODES = {404: "route_not_found", 405: "method_not_allowed"}


def build_app(front: Front) -> ASGIApp:
    """The application of one replica."""
    app = described()
    app.state.front = front
    app.add_exception_handler(Refusal, _on_refusal)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, _on_mistake)
    doors = {CHAT: chat_completions, COMPLETIONS: completions, NATIVE: submit}
    return Observed(
        ShortCut(app, doors), telemetry=front.telemetry, max_open=front.settings.max_open, face=face_of
    )


class ShortCut:
    """Takes submissions straight to their doors: FastAPI's own way costs as much as all that headrace does to one.

    Everything else, and whatever isn't a POST, goes the long way.
    """

    def __init__(self, app: FastAPI, doors: Mapping[str, Callable[[Request], Awaitable[Response]]]) -> None:
        self._app, self._doors = app, doors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request. Raises what its door raises."""
        door = self._doors.get(scope["path"]) if scope["method"] == "POST" else None
        if door is None:
            await self._app(scope, receive, send)
            return
        scope["app"], scope["headrace"].route = self._app, scope["path"]
        response = await door(Request(scope, receive, send))
        await response(scope, receive, send)


def face_of(path: str, refusal: Refusal) -> Response:
    """A refusal as the door at this path tells it."""
    native = path in (NATIVE, QUOTE) or path.startswith(f"{NATIVE}/") or not path.startswith("/v1/")
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
    app.include_router(reasons_routes())
    app.include_router(openai_routes())
    app.add_api_route("/livez", livez, methods=["GET"], summary="Whether its loops turn", tags=["Probes"])
    app.add_api_route(
        "/readyz", readyz, methods=["GET"], summary="Whether it takes requests", tags=["Probes"]
    )
    return app


async def livez(request: Request) -> Response:
    """200, or 503 with what stands still."""
    return _probed(request)


async def readyz(request: Request) -> Response:
    """200, or 503 with what isn't ready."""
    return _probed(request)


def _probed(request: Request) -> Response:
    """As on the port for probes."""
    telemetry = front_of(request).telemetry
    found = answer(telemetry.health, telemetry.metrics.registry, request.url.path, "")
    return Response(found.body, found.status, media_type=found.content_type)


async def _on_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    seen_of(request).refused = error
    return face_of(request.url.path, error)


async def _on_mistake(request: Request, error: Exception) -> Response:  # noqa: ARG001 logged by Observed
    return face_of(request.url.path, mistake())


async def _on_http_error(request: Request, error: Exception) -> Response:
    """What the router itself refuses: unknown routes and methods."""
    assert isinstance(error, HTTPException)
    code = _CODES.get(error.status_code, "bad_request")
    sentence = f"There is no {request.method} {request.url.path[:200]}."
    headers = tuple((error.headers or {}).items())
    return face_of(request.url.path, Refusal(error.status_code, code, sentence, headers=headers))
