"""Everything but generation: health, models, metrics, and what tests ask and set. Called by server. No I/O."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import orjson

from headrace.devkit.engine.core import Core
from headrace.devkit.engine.fault_plan import FaultPlan
from headrace.devkit.engine.journal import Journal
from headrace.devkit.engine.refusals import error_body

JSON, TEXT = "application/json", "text/plain"
VERSION = "0.32.0"
"""Of the vLLM whose answers these are."""
FAULTS = "/sim/faults"
SIMULATION = "/sim/"


@dataclass(frozen=True, slots=True)
class Page:
    """An answer."""

    body: bytes = b""
    status: int = 200
    content_type: str = JSON


class Pages:
    """The pages of one engine."""

    def __init__(self, core: Core, journal: Journal) -> None:
        self._core, self._journal = core, journal
        self._pages: dict[str, Callable[[], Page]] = {
            "/health": self._health,
            "/ping": self._health,
            "/version": lambda: Page(orjson.dumps({"version": VERSION})),
            "/load": lambda: Page(orjson.dumps({"server_load": core.counts.inside})),
            "/v1/models": lambda: Page(self._models()),
            "/metrics": lambda: Page(
                core.metrics.page(core.stepper, core.reading.models[0]).encode(), content_type=TEXT
            ),
            "/sim/stats": lambda: Page(msgspec.json.encode(core.stats)),
            "/sim/journal": lambda: Page(msgspec.json.encode(list(journal.exchanges))),
            FAULTS: lambda: Page(msgspec.json.encode(core.plan)),
        }

    def get(self, path: str) -> Page:
        """What stands there."""
        page = self._pages.get(path)
        return page() if page else Page(b'{"detail":"Not Found"}', 404)

    def change(self, method: str, path: str, body: bytes) -> Page | None:
        """POST and DELETE of /sim/ pages, and the POST that /ping allows; None: it is none of these."""
        if path == "/ping":
            return self._health()
        if not path.startswith(SIMULATION):
            return None
        if path != FAULTS or method not in {"POST", "DELETE"}:
            return Page(b'{"detail":"Not Found"}', 404)
        try:
            plan = msgspec.json.decode(body, type=FaultPlan) if method == "POST" else FaultPlan()
        except (msgspec.DecodeError, ValueError) as error:
            return Page(error_body(400, "BadRequestError", str(error)), 400)
        self._core.set_plan(plan)
        return Page(msgspec.json.encode(plan))

    def _health(self) -> Page:
        return Page() if self._core.alive else Page(status=503)

    def _models(self) -> bytes:
        models = [
            {
                "id": name,
                "object": "model",
                "created": 0,
                "owned_by": "vllm",
                "max_model_len": self._core.reading.max_model_len,
            }
            for name in self._core.reading.models
        ]
        return orjson.dumps({"object": "list", "data": models})
