"""One worker's backend: the calls under way, each as its dice or a schedule will have it, and the account of what really ran.

Driven by world.workers. Invariant: a run is disturbed, so that others may run its request again, exactly where its worker
died or gave up before its outcome was written.
"""

from collections.abc import Iterator

from headrace.bus.messages import Message, message_of
from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import AttemptId
from headrace.contracts.replies import Chunk
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Failure, Payload
from headrace.inference_worker.outcome import Outcome
from headrace.inference_worker.protocol.inputs import CallEnded, Progress, Work
from tests.simulation.world.calls import (
    Call,
    Ran,
    aborted,
    count_of,
    events_of_words,
    outcome_of,
    words_of,
)
from tests.simulation.world.stage import Stage
from tests.support.scheduler.pure import place

_NEVER = 10**12


class Backend:
    """`ran`: all that ever ran. `fail_share`: how many calls fail. `down_until_ms`: until when it doesn't answer probes.

    `lasts_ms`, `fails_as`: how each call that begins from now on will go, for written schedules.
    """

    def __init__(self, stage: Stage, worker: str, *, longest_ms: int, fail_share: float) -> None:
        self._stage, self._worker = stage, worker
        self._longest_ms, self._fail_share = longest_ms, fail_share
        self.ran: list[Ran] = []
        self.down_until_ms = 0
        self.lasts_ms: int | None = None
        self.fails_as: FailureKind | None = None
        self._calls: dict[AttemptId, Call] = {}
        self._unwritten: dict[AttemptId, Ran] = {}

    @property
    def under_way(self) -> int:
        """How many calls."""
        return len(self._calls)

    @property
    def next_ms(self) -> int:
        """When the next of them goes on; never, where there is none."""
        return min((call.next_ms for call in self._calls.values()), default=_NEVER)

    def start(self, work: Work, *, zombie: bool) -> None:
        """A call begins. `zombie`: its worker has stood still past its lease."""
        stage, attempt, request = self._stage, work.run.attempt, work.run.request
        ran = Ran(
            request.id, attempt, work.run.boot, work.run.epoch, stage.now_ms, zombie=zombie, hop=request.hop
        )
        self.ran.append(ran)
        self._unwritten[attempt] = ran
        before, count = self._handed(work), stage.rng.randint(1, 8)
        read = count_of(before)
        words = words_of(request, attempt, max(count, read + 1))[read:]
        stage.texts[request.id, attempt] = before + "".join(words)
        fails = stage.faulty and stage.rng.random() < self._fail_share
        every_ms = stage.rng.randint(30, self._longest_ms) // len(words)
        outcome = outcome_of(stage.rng, words, before, fails=fails)
        if self.lasts_ms is not None:
            every_ms = self.lasts_ms // len(words)
        if self.fails_as is not None:
            outcome = Outcome(failure=Failure(kind=self.fails_as))
        call = Call(work, ran, words, every_ms, outcome, stage.now_ms + every_ms, before)
        call.chunks = int(bool(before))
        self._calls[attempt] = call
        stage.note(self._worker, f"runs {request.id[-6:]} as {attempt}")

    def _handed(self, work: Work) -> str:
        """The text that an attempt is to go on from. It must be what the attempt that it is said to be of had said."""
        told, stage = work.run.text, self._stage
        if told is None:
            return ""
        text, said = work.text.decode(), stage.stopped.get((work.run.request.id, told.attempt))
        stage.saw("text gone on from")
        if (text, told.tokens) != (said, count_of(text)):
            who = f"{work.run.request.id[-6:]} as {work.run.attempt}"
            stage.broken.append(
                f"text: {who} is to go on from {text!r}, and {told.attempt} had said {said!r}"
            )
        return text

    def goes_on(self) -> Iterator[Message | Progress | CallEnded]:
        """What calls say by now, one after the other: chunks to send, how far they are, how they ended."""
        now_ms = self._stage.now_ms
        for attempt, call in list(self._calls.items()):
            while call.next_ms <= now_ms and not call.over:
                call.next_ms += call.every_ms
                call.said += 1
                if call.work.run.request.stream:
                    yield from self._chunk(call)
                if call.said < len(call.words):
                    yield Progress(attempt, call.said)
                else:
                    yield self._end(attempt, call)

    def _chunk(self, call: Call) -> Iterator[Message]:
        """One in so many is lost, and leaves a gap."""
        request, stage = call.work.run.request, self._stage
        value = events_of_words([call.words[call.said - 1]])
        chunk = Chunk(
            id=request.id, attempt=call.work.run.attempt, number=call.chunks, characters=len(call.text),
            payload=Payload(size=len(value), content_type="text/event-stream"),
            after=call.work.run.text.attempt if call.before and call.work.run.text else None, since=len(call.before),
        )  # fmt: skip
        call.chunks += 1
        if stage.faulty and stage.rng.random() < 0.03:
            stage.saw("lost chunk")
            return
        yield message_of(place(TopicKind.REPLIES, request.gateway), chunk, value)

    def _end(self, attempt: AttemptId, call: Call) -> CallEnded:
        del self._calls[attempt]
        failure = call.outcome.failure
        self._over(call, "done" if failure is None else f"failed: {failure.kind}")
        return CallEnded(attempt, call.outcome)

    def abort(self, attempt: AttemptId, why: object) -> CallEnded | None:
        """Ends a call. None: there is none."""
        call = self._calls.pop(attempt, None)
        if call is None:
            return None
        self._over(call, f"aborted: {why}")
        self._stage.stopped[call.work.run.request.id, attempt] = call.text
        return CallEnded(attempt, aborted(call))

    def written(self, attempt: AttemptId) -> None:
        """Its outcome stands in the log."""
        self._unwritten.pop(attempt, None)

    def abandon(self) -> None:
        """A drain's grace is over: what still runs ends here, and nobody may run it again for that."""
        for call in self._calls.values():
            self._over(call, "abandoned")
            self._unwritten.pop(call.ran.attempt, None)
        self._calls = {}

    def bury(self) -> None:
        """Its boot was buried, so the log says when it died: a run of others before that has no excuse."""
        self._break_off("its boot is over", disturbed=False)
        self._unwritten = {}

    def give_up(self, why: str) -> None:
        """All calls break off; what ran, and wasn't told to the end, may be run again by others."""
        self._break_off(why, disturbed=True)
        for ran in self._unwritten.values():
            ran.disturbed = True
        self._unwritten = {}

    def _break_off(self, why: str, *, disturbed: bool) -> None:
        calls, self._calls = self._calls, {}
        for call in calls.values():
            self._over(call, why, disturbed=disturbed)

    def _over(self, call: Call, why: str, *, disturbed: bool = False) -> None:
        call.over = True
        call.ran.ended_ms, call.ran.why, call.ran.tokens = self._stage.now_ms, why, call.said
        call.ran.disturbed = call.ran.disturbed or disturbed
        self._stage.note(self._worker, f"{call.work.run.request.id[-6:]} as {call.work.run.attempt}: {why}")
