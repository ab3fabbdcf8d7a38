"""What callers and workers write into a pool's logs in a simulated run. Used by owner.

Invariant: each record is as the product's own writers make it, so that the core takes it in by its usual way.
"""

from collections import defaultdict
from collections.abc import Sequence
from hashlib import blake2b

from headrace.bus.messages import Message, Place, Received, message_of
from headrace.contracts.clock import Now
from headrace.contracts.durations import ms
from headrace.contracts.failures import FailureKind, rule_of
from headrace.contracts.ids import boot_id, mint_request_id
from headrace.contracts.kept_text import MAX_TEXT_BYTES, KeptText
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import AttemptRecord, Verdict
from headrace.contracts.partitions import partition_of
from headrace.contracts.prefixes import BLOCK_TOKENS, ENDS, HASH_CHARACTERS
from headrace.contracts.reports import Held, Report
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Failure, Payload, Times, Usage
from headrace.scheduler.core.setting import Setting
from headrace.scheduler.simulate.backend import Backend
from headrace.scheduler.simulate.contender import Left
from headrace.scheduler.simulate.jobs import Fate, Job
from headrace.scheduler.state.held import HeldAttempt

_WALL_MS, _BOOT_MS = 1_767_225_600_000, 1_000_000
_KEY = bytes(32)
_BODY, _TEXT = b"{}", b"x" * MAX_TEXT_BYTES
_CHARACTERS = 4
"""Of a token, in the mean."""
_STATUS = {Fate.FINISHED: Status.SUCCEEDED, Fate.CANCELLED: Status.EXPIRED}
_PREEMPTED = Failure(kind=FailureKind.PREEMPTED, message=rule_of(FailureKind.PREEMPTED).sentence)


def usage_of(job: Job, tokens: int) -> Usage:
    """What the engine reports of the latest attempt, with so many tokens of the answer at its end."""
    return Usage(
        prompt_tokens=job.input_tokens + job.said,
        cached_tokens=0 if job.said else job.cached_tokens,
        completion_tokens=tokens - job.said,
    )


def text_of(held: HeldAttempt, tokens: int) -> KeptText | None:
    """What is told of the text of a stopped attempt: ASCII, so many characters a token; None: there is none, or too much."""
    size = tokens * _CHARACTERS
    if not 0 < size <= MAX_TEXT_BYTES:
        return None
    return KeptText(attempt=held.attempt, size=size, tokens=tokens, characters=size)


class Scribe:
    """Writes records, and counts the offsets of each log."""

    def __init__(self, setting: Setting, backends: Sequence[Backend]) -> None:
        self._setting, self._backends = setting, backends
        self._model = next(iter(setting.pool_policy.models.values()), "any")
        self._boots = [boot_id(_WALL_MS, number.to_bytes(10, "big")) for number in range(len(backends))]
        self._held: dict[Job, HeldAttempt] = {}
        self._offsets: defaultdict[Place, int] = defaultdict(int)
        self.epoch = 1
        """Of the owner that the workers know."""
        self.ids: dict[Job, str] = {}
        """Of the requests that are under way."""

    @staticmethod
    def now(now_ms: int) -> Now:
        """The instant, on both clocks."""
        return Now(_WALL_MS + now_ms, _BOOT_MS + now_ms)

    def end_of(self, place: Place) -> int:
        """Where the next record of a log will stand."""
        return self._offsets[place]

    def next_offset(self, place: Place) -> int:
        """A record is written there; its offset."""
        self._offsets[place] += 1
        return self._offsets[place] - 1

    def received(self, message: Message) -> Received:
        """The message as it is read."""
        offset = self.next_offset(message.place)
        return Received(message.topic, message.partition, offset, _WALL_MS, message.value, message.headers)

    def request(self, job: Job) -> Received:
        """A caller's request is accepted."""
        setting, policy = self._setting, self._setting.policy
        partition = partition_of(job.tenant, policy.topics.tenant_partitions)
        accepted_ms = _WALL_MS + job.at_ms
        self.ids[job] = mint_request_id(
            _KEY,
            tenant=job.tenant,
            pool=setting.pool,
            tier=job.tier,
            partition=partition,
            wall_ms=accepted_ms,
            random=job.number.to_bytes(10, "big"),
        )
        record = RequestRecord(
            id=self.ids[job],
            tenant=job.tenant,
            pool=setting.pool,
            tier=job.tier,
            partition=partition,
            model=self._model,
            route="/v1/chat/completions",
            accepted_ms=accepted_ms,
            payload=Payload(size=len(_BODY)),
            gateway=0,
            plain_text=job.plain,
            fairness_key=job.user,
            priority=job.priority,
            prompt_tokens=job.input_tokens,
            prefix=_prefix_of(job),
            start_by_ms=accepted_ms + ms(policy.tiers[job.tier].queue_timeout),
            finish_by_ms=None if job.deadline_ms is None else _WALL_MS + job.deadline_ms,
        )
        place = Place(setting.names.of(TopicKind.REQUESTS, pool=setting.pool, tier=job.tier), partition)
        return self.received(message_of(place, record, _BODY))

    def began(self, job: Job, held: HeldAttempt) -> int:
        """A worker has read the command to run it; the number of its backend."""
        self._held[job] = held
        return self._boots.index(held.boot)

    def attempt(self, left: Left, now_ms: int) -> Received:
        """A worker tells the outcome."""
        job, held = left.job, self._held.pop(left.job)
        instants = (job.sent_ms, job.kept_ms, left.first_ms, now_ms)
        sent, started, first, ended = (None if at is None else _WALL_MS + at for at in instants)
        text = text_of(held, left.tokens) if job.plain and job.fate is Fate.UNDER_WAY else None
        record = AttemptRecord(
            id=held.id,
            tenant=held.tenant,
            tier=held.tier,
            origin=held.origin,
            attempt=held.attempt,
            attempts=held.attempts,
            verdict=Verdict.RETRY_AT if job.fate is Fate.UNDER_WAY else Verdict.DONE,
            status=_STATUS.get(job.fate),
            failure=_PREEMPTED if job.fate is Fate.UNDER_WAY else None,
            worker=f"worker-{self._boots.index(held.boot)}",
            boot=held.boot,
            charge=held.charge,
            expects=held.expects,
            usage=usage_of(job, left.tokens),
            times=Times(dispatched_ms=sent, started_ms=started, first_token_ms=first, finished_ms=ended),
            model=self._model,
            before=job.said,
            text=text,
        )
        place = self._setting.place(TopicKind.ATTEMPTS, held.origin.partition)
        return self.received(message_of(place, record, b"" if text is None else _TEXT[: text.size]))

    def reports(self, now_ms: int) -> list[Received]:
        """Each worker tells what it holds."""
        return [self._report(number, now_ms) for number in range(len(self._backends))]

    def _report(self, number: int, now_ms: int) -> Received:
        backend, boot = self._backends[number], self._boots[number]
        lane = number % self._setting.policy.topics.lanes
        report = Report(
            worker=f"worker-{number}",
            boot=boot,
            epoch=self.epoch,
            lane=lane,
            position=self.end_of(self._setting.place(TopicKind.WORK, lane)),
            limit=backend.model.slots,
            held=tuple(
                _told(held, job.said, backend.tokens_of(job, now_ms))
                for job, held in self._held.items()
                if held.boot == boot
            ),
        )
        return self.received(message_of(self._setting.place(TopicKind.WORKERS), report))


def _prefix_of(job: Job) -> str:
    """As ingest would hash it for the tenant, of the blocks that are whole."""
    whole = min(len(job.blocks), job.input_tokens // BLOCK_TOKENS)
    begins = (f"{job.tenant}/{job.blocks[end - 1]}".encode() for end in ENDS if end <= whole)
    return "".join(blake2b(begin, digest_size=HASH_CHARACTERS // 2).hexdigest() for begin in begins)


def _told(held: HeldAttempt, said: int, tokens: int) -> Held:
    return Held(
        attempt=held.attempt,
        id=held.id,
        tenant=held.tenant,
        tier=held.tier,
        origin=held.origin,
        attempts=held.attempts,
        charge=held.charge,
        expects=held.expects,
        tokens=tokens - said,
        running=True,
        before=said,
    )
