"""The attempts in a worker's hands, from `run` to the acknowledged attempts record. Used by one boot of the protocol core.

Invariant: ResultRecord acknowledged before the AttemptRecord is sent, that one acknowledged before the attempt is dropped;
either is sent again until acknowledged. So a report without the attempt means that its outcome is in the log.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from msgspec.structs import replace

from headrace.contracts.clock import Now
from headrace.contracts.durations import ms
from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import AttemptId
from headrace.contracts.outcomes import AttemptRecord, ResultRecord
from headrace.contracts.reports import Held
from headrace.inference_worker.decisions.settle import StopReason, settle
from headrace.inference_worker.outcome import Outcome, unstarted
from headrace.inference_worker.protocol.inputs import Work, Written
from headrace.inference_worker.protocol.outputs import SendAttempt, SendResult
from headrace.inference_worker.protocol.records import attempt_of, held_of, result_of
from headrace.inference_worker.timings import Timings


class Stage(StrEnum):
    """How far an attempt has come here."""

    WAITING = "waiting"
    RUNNING = "running"
    RESULT = "result"
    ATTEMPT = "attempt"


@dataclass(slots=True)
class Holding:
    """One attempt. `send_at` is the instant (ms since boot) of the next write; None while one is under way.

    `after_report`: it isn't started before the report of this number, which shows it, is acknowledged; 0: at once.
    """

    work: Work
    stage: Stage = Stage.WAITING
    tokens: int = 0
    stop: StopReason | None = None
    outcome: Outcome = field(default_factory=Outcome)
    result: ResultRecord | None = None
    record: AttemptRecord | None = None
    send_at: int | None = None
    after_report: int = 0

    @property
    def attempt(self) -> AttemptId:
        """Its id."""
        return self.work.run.attempt


@dataclass(frozen=True, slots=True)
class HoldingToken:
    """Tells whose write was confirmed, and which of the two."""

    boot: str
    attempt: AttemptId
    stage: Stage


class Holdings:
    """All attempts of one boot, in order of arrival."""

    def __init__(self, *, worker: str, boot: str, timings: Timings) -> None:
        self._worker, self._boot, self._timings = worker, boot, timings
        self._held: dict[AttemptId, Holding] = {}

    def __len__(self) -> int:
        return len(self._held)

    def take(self, work: Work) -> Holding:
        """A `run` has come."""
        holding = self._held[work.run.attempt] = Holding(work)
        return holding

    def get(self, attempt: AttemptId) -> Holding | None:
        """The attempt, if it is here."""
        return self._held.get(attempt)

    def at(self, stage: Stage) -> list[Holding]:
        """Those in this stage, oldest first."""
        return [holding for holding in self._held.values() if holding.stage is stage]

    def report(self) -> tuple[Held, ...]:
        """All of them, as a report shows them."""
        return tuple(
            held_of(h.work.run, tokens=h.tokens, running=h.stage is Stage.RUNNING)
            for h in self._held.values()
        )

    def hand_back(self, holding: Holding, kind: FailureKind, now: Now) -> None:
        """It hasn't started and won't."""
        self.end(holding, unstarted(kind), now)

    def end(self, holding: Holding, outcome: Outcome, now: Now) -> None:
        """It is over; what is to be written is fixed now and written from the next `sends` on."""
        settlement = settle(outcome, holding.stop, now)
        holding.outcome = outcome
        holding.result = result_of(holding.work.run, outcome, settlement, worker=self._worker)
        holding.record = attempt_of(
            holding.work.run, outcome, settlement, worker=self._worker, boot=self._boot
        )
        holding.stage = Stage.RESULT if holding.result else Stage.ATTEMPT
        holding.tokens = outcome.usage.completion_tokens or holding.tokens
        holding.send_at = now.boot_ms

    def sends(self, now: Now) -> Iterator[SendResult | SendAttempt]:
        """The writes that are due; each is under way from now on."""
        for holding in self._held.values():
            if holding.send_at is not None and holding.send_at <= now.boot_ms:
                holding.send_at = None
                yield self._send(holding)

    def written(self, token: HoldingToken, written: Written, now: Now) -> None:
        """What became of a write. Unknown or refused: once more, a little later."""
        holding = self._held.get(token.attempt)
        if token.boot != self._boot or holding is None or holding.stage is not token.stage:
            return
        if written.too_large and holding.stage is Stage.RESULT:
            too_large = Outcome(
                failure=unstarted(FailureKind.ANSWER_TOO_LARGE).failure, usage=holding.outcome.usage,
                times=holding.outcome.times,
            )  # fmt: skip
            self.end(holding, too_large, now)
        elif written.too_large and holding.record is not None:  # its text is all that can be too much
            holding.record, holding.send_at = replace(holding.record, text=None), now.boot_ms
        elif not written.acknowledged:
            holding.send_at = now.boot_ms + ms(self._timings.resend_after)
        elif holding.stage is Stage.RESULT:
            holding.stage, holding.send_at = Stage.ATTEMPT, now.boot_ms
        else:
            del self._held[token.attempt]

    def _send(self, holding: Holding) -> SendResult | SendAttempt:
        token = HoldingToken(self._boot, holding.attempt, holding.stage)
        run, trace = holding.work.run, holding.work.trace
        if holding.stage is Stage.RESULT and holding.result is not None:
            return SendResult(token, holding.result, holding.outcome.body, trace)
        if holding.record is None:
            raise AssertionError("an attempt that is over has its record")
        kept = holding.outcome.kept
        text = b"" if holding.record.text is None or kept is None else kept.text
        return SendAttempt(token, holding.record, run.request.partition, trace, text)
