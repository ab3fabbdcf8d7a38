"""The records that end an attempt, from the command and its settlement. Called by the holdings of the protocol core."""

from msgspec.structs import replace

from headrace.contracts.commands import Run
from headrace.contracts.failures import FailureKind
from headrace.contracts.kept_text import MAX_TEXT_BYTES, KeptText
from headrace.contracts.outcomes import AttemptRecord, ResultRecord, Verdict
from headrace.contracts.reports import Held
from headrace.contracts.values import Failure, Payload, Times, cut_sentence
from headrace.inference_worker.decisions.settle import Settlement
from headrace.inference_worker.outcome import Outcome
from headrace.inference_worker.said import usage_of_whole

_STOPPED = frozenset({FailureKind.PREEMPTED, FailureKind.WORKER_DRAINED})
"""It was headrace that stopped it, and nothing is wrong with what was said."""


def result_of(run: Run, outcome: Outcome, settlement: Settlement, *, worker: str) -> ResultRecord | None:
    """The terminal record; None when the request goes back to the queue."""
    if settlement.verdict is not Verdict.DONE or settlement.status is None:
        return None
    request = run.request
    return ResultRecord(
        id=request.id,
        tenant=request.tenant,
        pool=request.pool,
        tier=request.tier,
        partition=request.partition,
        origin=run.origin,
        attempt=run.attempt,
        attempts=run.attempts,
        status=settlement.status,
        http_status=settlement.http_status,
        accepted_ms=request.accepted_ms,
        gateway=request.gateway,
        model=request.model,
        route=request.route,
        payload=Payload(size=len(outcome.body), encoding=outcome.encoding, content_type=outcome.content_type),
        waits=request.waits,
        stream=request.stream,
        partial=outcome.partial,
        failure=_cut(settlement.failure),
        usage=usage_of_whole(outcome.usage, outcome.before) if outcome.before else outcome.usage,
        times=_times(run, outcome),
        worker=worker,
    )


def attempt_of(
    run: Run, outcome: Outcome, settlement: Settlement, *, worker: str, boot: str
) -> AttemptRecord:
    """The record that settles the attempt, whatever it came to."""
    return AttemptRecord(
        id=run.request.id,
        tenant=run.request.tenant,
        tier=run.request.tier,
        origin=run.origin,
        attempt=run.attempt,
        attempts=run.attempts,
        verdict=settlement.verdict,
        status=settlement.status,
        worker=worker,
        boot=boot,
        charge=run.charge,
        expects=run.expects,
        started=outcome.started,
        retry_ms=settlement.retry_ms,
        trial=run.trial,
        failure=_cut(settlement.failure),
        usage=outcome.usage,
        times=_times(run, outcome),
        model=run.request.model,
        hop=run.request.hop,
        before=outcome.before,
        text=_text_of(run, outcome, settlement),
    )


def _text_of(run: Run, outcome: Outcome, settlement: Settlement) -> KeptText | None:
    kept, failure = outcome.kept, settlement.failure
    if kept is None or failure is None or failure.kind not in _STOPPED or len(kept.text) > MAX_TEXT_BYTES:
        return None
    return KeptText(
        attempt=run.attempt,
        size=len(kept.text),
        tokens=kept.tokens,
        characters=kept.characters,
        encoding=kept.encoding,
    )


def held_of(run: Run, *, tokens: int, running: bool) -> Held:
    """The attempt as a report shows it."""
    return Held(
        attempt=run.attempt,
        id=run.request.id,
        tenant=run.request.tenant,
        tier=run.request.tier,
        origin=run.origin,
        attempts=run.attempts,
        charge=run.charge,
        expects=run.expects,
        tokens=tokens,
        running=running,
        trial=run.trial,
        before=0 if run.text is None else run.text.tokens,
    )


def _cut(failure: Failure | None) -> Failure | None:
    return None if failure is None else replace(failure, message=cut_sentence(failure.message))


def _times(run: Run, outcome: Outcome) -> Times:
    times = outcome.times
    return Times(
        dispatched_ms=run.dispatched_ms,
        started_ms=times.started_ms,
        first_token_ms=times.first_token_ms,
        finished_ms=times.finished_ms,
    )
