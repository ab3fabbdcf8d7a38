"""Runs one attempt: opens the payload, calls the backend under a span, relays its stream, seals the answer.

Called by the service, one task for each attempt. Invariant: it returns an Outcome whatever happens, also when cancelled.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from opentelemetry.trace import Span

from headrace.bus.messages import Place
from headrace.bus.ports import AsyncProducer
from headrace.contracts.codec import TRACE_HEADERS, find_header
from headrace.contracts.failures import FailureKind
from headrace.contracts.reports import Allowed
from headrace.contracts.requests import RequestRecord
from headrace.contracts.seal import CannotOpenError, Seal
from headrace.inference_worker.attempt_call import AttemptCall, CallLimits
from headrace.inference_worker.chunks import ChunkRelay
from headrace.inference_worker.decisions.can_it_go_on import can_it_go_on
from headrace.inference_worker.decisions.how_to_call import BackendKind, how_to_call
from headrace.inference_worker.hearing import Hearing
from headrace.inference_worker.outcome import Outcome, unstarted
from headrace.inference_worker.ports import Backend
from headrace.inference_worker.protocol.inputs import Work
from headrace.inference_worker.said import NOTHING, Said
from headrace.inference_worker.worker_metrics import WorkerMetrics, name_of
from headrace.runtime.logging import bound_ids, get_logger
from headrace.runtime.telemetry import Telemetry
from headrace.runtime.tracing import parse_traceparent, traceparent_of

_OPERATIONS = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "text_completion",
    "/v1/embeddings": "embeddings",
}


@dataclass(frozen=True, slots=True)
class BackendFacts:
    """Which backend it is, and whether it goes on with a text (`resumes`)."""

    kind: BackendKind
    url: str
    resumes: bool = True


class AttemptRunner:
    """What every attempt of this worker shares."""

    def __init__(
        self, backend: Backend, facts: BackendFacts, *, limits: CallLimits, seal: Seal, telemetry: Telemetry,
        metrics: WorkerMetrics, chunks: AsyncProducer, replies: str,
    ) -> None:  # fmt: skip
        self._backend, self._facts, self._limits, self._seal = backend, facts, limits, seal
        self._telemetry, self._metrics = telemetry, metrics
        self._chunks, self._replies = chunks, replies
        self._log = get_logger("attempts")

    async def run(
        self, work: Work, begun: Callable[[AttemptCall], None], heard: Callable[[Allowed], None]
    ) -> Outcome:
        """The attempt's outcome, sealed. `begun` is handed the call, to see its tokens; `heard` what is told of limits."""
        request = work.run.request
        with bound_ids(request_id=request.id, tenant=request.tenant, attempt=str(work.run.attempt)):
            try:
                outcome = await self._called(work, begun, heard)
            except Exception as error:  # noqa: BLE001 - one bad attempt mustn't end the others
                self._log.error("an attempt failed in the worker itself", exc_info=error)
                outcome = unstarted(FailureKind.BACKEND_ERROR, f"the worker failed: {type(error).__name__}")
                outcome = replace(outcome, started=True)
            self._metrics.ended(outcome)
            # A line for each success would cost as much as a tenth of the whole attempt.
            log = self._log.info if outcome.failure is not None else self._log.debug
            log("attempt ended", outcome=name_of(outcome), tokens=outcome.usage.completion_tokens)
        return self._sealed(request, outcome)

    async def _called(
        self, work: Work, begun: Callable[[AttemptCall], None], heard: Callable[[Allowed], None]
    ) -> Outcome:
        request = work.run.request
        if not request.payload.inline:
            return unstarted(
                FailureKind.UNDECODABLE, "this worker has no object store to fetch the payload from"
            )
        if not work.value:
            return unstarted(FailureKind.EMPTY_RECORD)
        try:
            body = self._seal.open(
                work.value, request.payload.encoding, tenant=request.tenant, request_id=request.id
            )
        except CannotOpenError as error:
            return unstarted(FailureKind.UNDECODABLE, str(error))
        parent = parse_traceparent(*(find_header(work.trace, name) for name in TRACE_HEADERS))
        operation = _OPERATIONS.get(request.route, request.route)
        with self._telemetry.tracing.client(f"{operation} {request.model}", parent) as span:
            span.set_attributes(self._attributes(request, operation))
            outcome = await self._under_span(work, body, span, begun, heard)
            _note(span, outcome)
        return outcome

    async def _under_span(
        self,
        work: Work,
        body: bytes,
        span: Span,
        begun: Callable[[AttemptCall], None],
        heard: Callable[[Allowed], None],
    ) -> Outcome:
        run, request = work.run, work.run.request
        able = self._facts.resumes and can_it_go_on(request, self._facts.kind, body)
        before = self._said_before(work) if able else NOTHING
        keeps = able and (run.stoppable or bool(before.text))
        plan = how_to_call(request, self._facts.kind, keeps=keeps)
        relay = None
        if plan.relayed:
            place = Place(self._replies, request.gateway)
            relay = ChunkRelay(self._chunks, place, run, self._seal, work.trace)
        headers = {"X-Request-Id": f"{request.id}-{run.attempt}"}
        if traceparent := traceparent_of(span):
            headers["traceparent"] = traceparent
        backend = Hearing(self._backend, self._telemetry.clock, heard)
        call = AttemptCall(
            request, body, plan=plan, backend=backend, clock=self._telemetry.clock, limits=self._limits,
            relay=relay, headers=headers, keeps=able and plan.streamed, before=before,
        )  # fmt: skip
        begun(call)
        try:
            with self._metrics.in_flight.track_inprogress():
                outcome = await call.run()
        except asyncio.CancelledError:
            outcome = call.aborted()
        if relay is not None:
            await self._flush(relay, outcome)
        return outcome

    async def _flush(self, relay: ChunkRelay, outcome: Outcome) -> None:
        """The last events reach the log before the outcome does, if the log takes them at once; also of what was stopped:
        whoever reads it may be shown how it goes on.
        """
        try:
            if not outcome.aborted or outcome.kept is not None:
                await relay.finish()
        except asyncio.CancelledError:
            pass  # the answer is there: a cancel that comes now comes too late
        finally:
            relay.drop()
            self._metrics.chunks_lost.inc(relay.lost)

    def _attributes(self, request: RequestRecord, operation: str) -> dict[str, str]:
        return {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": str(self._facts.kind),
            "gen_ai.request.model": request.model,
            "headrace.request.id": request.id,
            "server.address": self._facts.url,
        }

    def _said_before(self, work: Work) -> Said:
        """What the owner handed on; nothing, where that can't be opened or isn't what it says."""
        told, request = work.run.text, work.run.request
        if told is None or len(work.text) != told.size:
            return NOTHING
        try:
            plain = self._seal.open(work.text, told.encoding, tenant=request.tenant, request_id=request.id)
            text = plain.decode()
        except (CannotOpenError, UnicodeDecodeError):
            return NOTHING
        return Said(text, told.tokens) if len(text) == told.characters else NOTHING

    def _sealed(self, request: RequestRecord, outcome: Outcome) -> Outcome:
        if (kept := outcome.kept) is not None:
            encoding, text = self._seal.seal(kept.text, tenant=request.tenant, request_id=request.id)
            outcome = replace(outcome, kept=replace(kept, text=text, encoding=encoding))
        if not outcome.body:
            return outcome
        encoding, stored = self._seal.seal(outcome.body, tenant=request.tenant, request_id=request.id)
        return replace(outcome, body=stored, encoding=encoding)


def _note(span: Span, outcome: Outcome) -> None:
    span.set_attribute("gen_ai.usage.input_tokens", outcome.usage.prompt_tokens)
    span.set_attribute("gen_ai.usage.output_tokens", outcome.usage.completion_tokens)
    if outcome.failure is not None:
        span.set_attribute("error.type", str(outcome.failure.kind))
