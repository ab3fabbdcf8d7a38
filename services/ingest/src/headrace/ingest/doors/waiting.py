"""OpenAI's doors without `stream`: the answer is the committed result, byte for byte.

Invariant: until the first heartbeat a failure is a real status; after it, only a whole stored body ends the answer, and
anything else leaves it unfinished: never a 200 with an error in it.
"""

from starlette.types import Send

from headrace.contracts.replies import Final
from headrace.ingest.decisions.what_to_answer import Ended, HttpAnswer, what_to_answer
from headrace.ingest.doors.connection import HeldOpen
from headrace.ingest.ports import Listener
from headrace.ingest.refusal import JSON_TYPE, Refusal

_HEARTBEAT = b"\n"
"""Leading white space is no part of a JSON text."""


class WaitingAnswer(HeldOpen):
    """Waits for the end of a request and answers with its body."""

    async def answer(self, send: Send, listener: Listener) -> None:
        """Sends the answer. Raises GoneError; Refusal while nothing is sent."""
        try:
            answer = what_to_answer(await self._end(send, listener))
        except Refusal:
            self.unfinished = self.begun
            if self.begun:
                return
            raise
        if not self.begun:
            headers = {"content-length": str(len(answer.body))} | answer.headers
            more = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
            await send(self.start_of(answer.status, answer.content_type, *more))
        elif not _fits_a_begun_answer(answer):
            self.unfinished = True
            return
        await send({"type": "http.response.body", "body": answer.body})

    async def _end(self, send: Send, listener: Listener) -> Ended:
        while True:
            heard = await self.next(listener)
            if heard is None:
                await self._heartbeat(send)
            elif isinstance(heard.record, Final):
                return await self.ingest.ended_from(heard.record, heard.value, self.record.tenant)

    async def _heartbeat(self, send: Send) -> None:
        if not self.begun:
            self.begun = True
            await send(self.start_of(200, JSON_TYPE))
        await send({"type": "http.response.body", "body": _HEARTBEAT, "more_body": True})


def _fits_a_begun_answer(answer: HttpAnswer) -> bool:
    return answer.status == 200 and answer.content_type.startswith(JSON_TYPE)
