"""A connection that is held open while a request is on its way: hears of it, notices that the caller hangs up.

Base of the waiting and the streaming answer of OpenAI's doors. Invariant: the listener is made before the request is
written, and a caller who hangs up cancels the request.
"""

import asyncio
from abc import ABC, abstractmethod
from datetime import timedelta
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from headrace.contracts.failures import FailureKind, rule_of
from headrace.ingest.http_server import BREAK_OFF
from headrace.ingest.ports import GoneError, Heard, Listener, StoppingError
from headrace.ingest.refusal import Refusal

if TYPE_CHECKING:
    from headrace.ingest.doors.front import Front
    from headrace.ingest.preparing import Prepared

_GRACE_MS = 10_000
"""How long after a request's deadline its committed outcome is still waited for."""


class HeldOpen(Response, ABC):
    """An answer that is only known later. Its call raises Refusal as long as nothing was sent."""

    def __init__(self, front: "Front", prepared: "Prepared") -> None:
        super().__init__()
        self.front, self.ingest = front, front.ingest
        self.prepared, self.record = prepared, prepared.record
        self.begun = self.unfinished = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Writes the request, then answers."""
        with self.ingest.parts.replies.listen(self.record.id) as listener:
            watching = asyncio.ensure_future(_watch(receive, listener))
            try:
                await self.ingest.accept(self.prepared)
                await self.answer(send, listener)
                if self.unfinished:
                    await _break_off(scope, watching)
            except GoneError:
                self.ingest.cancel_soon(self.record)
            finally:
                watching.cancel()

    @abstractmethod
    async def answer(self, send: Send, listener: Listener) -> None:
        """Sends the answer, or says that it stays `unfinished`. Raises GoneError; Refusal while nothing is sent."""

    async def next(self, listener: Listener) -> Heard | None:
        """What is heard next; None after a silence that asks for a heartbeat. Raises Refusal past the deadline, GoneError."""
        try:
            async with asyncio.timeout(_seconds(self.front.settings.heartbeat_after)):
                return await listener.next()
        except TimeoutError:
            self._may_wait()
            return None
        except StoppingError:
            raise sent_away(self.record.id) from None

    def start_of(self, status: int, content_type: str, *more: tuple[bytes, bytes]) -> Message:
        """The beginning of an answer."""
        headers = [
            (b"content-type", content_type.encode("latin-1")),
            (b"x-request-id", self.record.id.encode()),
            *more,
        ]
        return {"type": "http.response.start", "status": status, "headers": headers}

    def _may_wait(self) -> None:
        finish_by_ms = self.record.finish_by_ms
        if finish_by_ms is not None and self.ingest.parts.clock.now().wall_ms > finish_by_ms + _GRACE_MS:
            rule = rule_of(FailureKind.DEADLINE_PASSED)
            raise Refusal(
                rule.http_status,
                FailureKind.DEADLINE_PASSED.value,
                rule.sentence,
                may_retry=False,
                request_id=self.record.id,
            )


async def _watch(receive: Receive, listener: Listener) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    listener.hang_up()


async def _break_off(scope: Scope, watching: asyncio.Future[None]) -> None:
    """Ends the connection in the midst of the answer, which is all that HTTP offers then."""
    extension = scope.get("extensions", {}).get(BREAK_OFF)
    if extension is not None:
        extension["call"]()
        await watching  # the server takes an answer that ends before its connection for a mistake


def sent_away(request_id: str) -> Refusal:
    """What a caller is told who waits at a replica that stops."""
    sentence = (
        f"This replica stops, and your request goes on: GET /v1/requests/{request_id}/result has its answer."
    )
    return Refusal(503, "replica_stopping", sentence, may_retry=False, request_id=request_id)


def _seconds(duration: timedelta) -> float:
    return duration.total_seconds()
