"""One call of the backend, from the request's bytes to an Outcome. Run by attempt_runner, one task for each attempt.

Invariant: a plain answer passes untouched; a stream succeeds only when every choice has ended; whatever goes wrong becomes
one row of the failure table, with the text that there is. A backend that won't go on with a text is asked anew, for all.
"""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import msgspec
import orjson

from headrace.contracts.failures import rule_of
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import MAX_PAYLOAD_BYTES
from headrace.contracts.values import Failure, Times, Usage, cut_sentence
from headrace.inference_worker.assemble import Assembler
from headrace.inference_worker.decisions.can_it_go_on import CHAT, what_to_keep
from headrace.inference_worker.decisions.classify_failure import (
    BackendSays,
    Broken,
    classify_answer,
    classify_broken,
    classify_event,
    is_relayed,
    read_error,
    says_of,
    status_said,
)
from headrace.inference_worker.decisions.how_to_call import CallPlan, body_for
from headrace.inference_worker.decisions.how_to_go_on import body_that_goes_on
from headrace.inference_worker.decisions.is_done import is_broken_off, is_done
from headrace.inference_worker.decisions.when_to_retry import read_retry_after
from headrace.inference_worker.outcome import JSON, NO_USAGE, Outcome
from headrace.inference_worker.ports import Backend, BackendCall, BackendReply, BrokenCallError, Relay
from headrace.inference_worker.said import NOTHING, Said
from headrace.inference_worker.shown import as_shown, is_shown
from headrace.inference_worker.sse import Event, EventTooLargeError, SseParser
from headrace.inference_worker.usage import usage_from
from headrace.runtime.clock import Clock

_AFTER_DONE = timedelta(milliseconds=100)
_DONE = b"[DONE]"


@dataclass(frozen=True, slots=True)
class CallLimits:
    """`total`: when the request has no deadline of its own. `stall`: between two data events of a stream."""

    total: timedelta = timedelta(minutes=10)
    stall: timedelta = timedelta(minutes=2)
    answer_bytes: int = MAX_PAYLOAD_BYTES


class _PlainAnswer(msgspec.Struct):
    """What is looked at of a plain answer; all else is skipped, and checked to be JSON."""

    usage: Any = None
    error: Any = None
    choices: Any = None


class AttemptCall:
    """State of one call. `tokens` so far is read by the service while it runs.

    `keeps`: a later attempt may go on with what this one says. `before`: what this one goes on with.
    """

    def __init__(
        self, request: RequestRecord, body: bytes, *, plan: CallPlan, backend: Backend, clock: Clock,
        limits: CallLimits, relay: Relay | None = None, headers: Mapping[str, str] | None = None,
        keeps: bool = False, before: Said = NOTHING,
    ) -> None:  # fmt: skip
        self._request, self._plan, self._backend, self._clock = request, plan, backend, clock
        self._limits, self._relay, self._keeps = limits, relay, keeps
        sent, content_type = body_for(plan, request, body), request.payload.content_type
        self._call = BackendCall(request.route, sent, content_type, plan.streamed, headers or {})
        text, tokens = before.text, before.tokens
        rest = body_that_goes_on(body, route=request.route, text=text, tokens=tokens) if text else None
        self._rest = None if rest is None else replace(self._call, body=body_for(plan, request, rest))
        self._begin(NOTHING if rest is None else before)
        self._done_seen = False
        self._started_ms = clock.now().wall_ms
        self._first_token_ms: int | None = None

    def _begin(self, before: Said) -> None:
        self._before = before
        self._assembler = Assembler(before, chat=self._request.route == CHAT)
        if self._relay is not None and not before.text:
            self._relay.goes_on_from_nothing()

    @property
    def _goes_on(self) -> bool:
        """Whether the backend has said something, be it that this was all."""
        return self._assembler.tokens > 0 or any(self._assembler.finish_reasons.values())

    @property
    def tokens(self) -> int:
        """Completion tokens so far, counted from the stream; 0 for a plain call."""
        return self._assembler.tokens

    async def run(self) -> Outcome:
        """The outcome, whatever happens. A cancelled task raises CancelledError; `aborted` then says what there is."""
        try:
            return await self._in_time()
        except BrokenCallError as broken:
            alive = broken.how is not Broken.CUT_OFF or await self._backend.alive()
            kind = classify_broken(broken.how, backend_alive=alive)
            started = broken.how is not Broken.NOT_CONNECTED
            return self._ended(Failure(kind=kind, message=str(broken.how)), started=started)

    def aborted(self) -> Outcome:
        """The outcome of a call that was given up."""
        return self._ended(None, aborted=True)

    async def _in_time(self) -> Outcome:
        deadline = self._request.finish_by_ms
        left = self._limits.total
        if deadline is not None:
            left = min(left, timedelta(milliseconds=deadline - self._clock.now().wall_ms))
        try:
            async with asyncio.timeout(left.total_seconds()):
                return await self._answer()
        except TimeoutError:
            over = Broken.OVER_TIME if left == self._limits.total else Broken.PAST_DEADLINE
            raise BrokenCallError(over) from None

    async def _answer(self) -> Outcome:
        if self._rest is not None:
            outcome = await self._called(self._rest)
            if self._goes_on or (outcome.failure and rule_of(outcome.failure.kind).retryable):
                return outcome
            self._begin(NOTHING)
        return await self._called(self._call)

    async def _called(self, call: BackendCall) -> Outcome:
        async with self._backend.open(call) as reply:
            if not 100 <= reply.status <= 599:
                raise BrokenCallError(Broken.MALFORMED)  # no status of HTTP, and no record takes it
            if not 200 <= reply.status < 300:
                return self._refused(reply, await self._whole(reply))
            if self._plan.streamed and "application/json" not in reply.content_type:
                return await self._stream(reply)
            return self._plain(reply, await self._whole(reply))

    async def _whole(self, reply: BackendReply) -> bytes:
        parts, size = list[bytes](), 0
        async for piece in reply.pieces():
            parts.append(piece)
            size += len(piece)
            if size > self._limits.answer_bytes:
                raise BrokenCallError(Broken.TOO_LARGE)
        return b"".join(parts)

    def _refused(self, reply: BackendReply, body: bytes) -> Outcome:
        return self._failed(
            reply.status, read_error(body), body, reply.content_type or JSON,
            retry_after_ms=read_retry_after(reply.retry_after, self._clock.now()),
        )  # fmt: skip

    def _failed(
        self,
        status: int,
        says: BackendSays,
        body: bytes,
        content_type: str,
        *,
        retry_after_ms: int | None = None,
    ) -> Outcome:
        kind = classify_answer(status, says)
        failure = Failure(
            kind=kind,
            message=cut_sentence(says.message),
            backend_status=status,
            retry_after_ms=retry_after_ms,
        )
        if not is_relayed(kind):
            return self._ended(failure)
        return self._ended(failure, status=status, body=body, content_type=content_type)

    def _plain(self, reply: BackendReply, body: bytes) -> Outcome:
        content_type = reply.content_type or JSON
        if "json" not in content_type:
            if "html" in content_type or not body:
                raise BrokenCallError(Broken.MALFORMED)  # a proxy's page, or nothing: no answer
            return self._ended(None, status=reply.status, body=body, content_type=content_type)
        try:
            answer = msgspec.json.decode(body, type=_PlainAnswer)
        except (msgspec.DecodeError, ValueError, RecursionError):
            raise BrokenCallError(Broken.MALFORMED) from None
        if answer.error:
            says = says_of({"error": answer.error})
            return self._failed(status_said(says), says, body, content_type)
        if is_broken_off(answer.choices):
            raise BrokenCallError(Broken.UNFINISHED)
        usage = usage_from(answer.usage)
        return self._ended(None, status=reply.status, body=body, content_type=content_type, usage=usage)

    async def _stream(self, reply: BackendReply) -> Outcome:
        failed = await self._follow(reply)
        if failed is not None:
            return failed
        if not is_done(
            self._assembler.finish_reasons, expected=self._request.choices, done_seen=self._done_seen
        ):
            raise BrokenCallError(Broken.UNFINISHED)
        body = self._assembler.body()
        if len(body) > self._limits.answer_bytes:
            raise BrokenCallError(Broken.TOO_LARGE)
        return self._ended(None, status=200, body=body)

    async def _follow(self, reply: BackendReply) -> Outcome | None:
        """Reads the stream to its end, or to an error that it says; returns that error."""
        parser, loop = SseParser(self._limits.answer_bytes), asyncio.get_running_loop()
        try:
            async with (
                asyncio.timeout(self._limits.stall.total_seconds()) as timer,
                aclosing(reply.pieces()) as pieces,
            ):
                async for piece in pieces:
                    for event in parser.feed(piece):
                        if (failed := self._event(event)) is not None:
                            return failed
                        left = _AFTER_DONE if self._done_seen else self._limits.stall
                        timer.reschedule(loop.time() + left.total_seconds())
        except EventTooLargeError:
            raise BrokenCallError(Broken.TOO_LARGE) from None
        except TimeoutError:
            if timer.expired() and not self._done_seen:
                raise BrokenCallError(Broken.STALLED) from None
            if not self._done_seen:
                raise
        return None

    def _event(self, event: Event) -> Outcome | None:
        if event.data.strip() == _DONE:
            self._done_seen = True
            return None
        try:
            chunk = orjson.loads(event.data)
            if isinstance(chunk, dict) and chunk.get("error"):
                return self._said_error(chunk)
            self._assembler.add(chunk)
        except (ValueError, AttributeError):
            raise BrokenCallError(Broken.MALFORMED_STREAM) from None
        if self._first_token_ms is None and self._assembler.tokens:
            self._first_token_ms = self._clock.now().wall_ms
        if self._assembler.characters > self._limits.answer_bytes:
            raise BrokenCallError(Broken.TOO_LARGE)
        opens = bool(self._before.text) and not self._goes_on
        if self._relay is not None and is_shown(chunk, self._request, opens=opens):
            self._relay.add(as_shown(event.raw, chunk, self._before), self._assembler.characters)
        return None

    def _said_error(self, chunk: dict[str, Any]) -> Outcome:
        says = says_of(chunk)
        return self._ended(Failure(kind=classify_event(says), message=cut_sentence(says.message)))

    def _ended(
        self, failure: Failure | None, *, status: int | None = None, body: bytes | None = None,
        content_type: str = JSON, usage: Usage | None = None, started: bool = True, aborted: bool = False,
    ) -> Outcome:  # fmt: skip
        spoke = self._assembler.tokens > 0 or bool(self._before.text)
        partial = (failure is not None or aborted) and body is None and spoke
        return Outcome(
            failure=failure,
            http_status=status,
            body=self._assembler.body() if partial else body or b"",
            content_type=content_type,
            partial=partial,
            started=started,
            aborted=aborted,
            usage=usage or self._usage(),
            times=Times(
                started_ms=self._started_ms if started else None,
                first_token_ms=self._first_token_ms,
                finished_ms=self._clock.now().wall_ms,
            ),
            before=self._before.tokens,
            kept=what_to_keep(self._assembler.said, self._request.route) if aborted and self._keeps else None,
        )

    def _usage(self) -> Usage:
        """As the engine said, else counted from the stream and marked so."""
        if self._assembler.usage is not None or not self._assembler.tokens:
            return self._assembler.usage or NO_USAGE
        return Usage(
            prompt_tokens=self._request.prompt_tokens + self._before.tokens,
            completion_tokens=self._assembler.tokens,
            estimated=True,
        )
