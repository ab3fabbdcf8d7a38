"""What ingest does, apart from HTTP: knows callers, checks and writes requests, and says where they are.

Called by the doors. Invariant: `accept` returns only after the log's acknowledgement, and whatever is refused before it
has left nothing in the log.
"""

import asyncio
import contextlib
import random
import secrets
from dataclasses import dataclass
from datetime import timedelta

from headrace.bus.messages import Headers
from headrace.contracts.durations import ms
from headrace.contracts.ids import RequestAddress, mint_request_id, verify_request_id
from headrace.contracts.partitions import partition_of
from headrace.contracts.policy import Policy
from headrace.contracts.replies import Chunk, Final
from headrace.contracts.requests import RequestRecord
from headrace.contracts.seal import Seal
from headrace.contracts.values import Payload
from headrace.ingest.decisions.may_admit import too_large, which_pool
from headrace.ingest.decisions.may_queue import may_queue
from headrace.ingest.decisions.read_submission import Submission, read_submission
from headrace.ingest.decisions.replace_model import replace_model, without_member
from headrace.ingest.decisions.what_to_answer import Ended
from headrace.ingest.decisions.which_deadline import Deadlines, duration_or_refusal, which_deadline
from headrace.ingest.decisions.which_record import Placed, which_record
from headrace.ingest.decisions.which_tier import which_tier
from headrace.ingest.ports import (
    DoesNotFitError,
    Heard,
    OutcomeUnknownError,
    Owners,
    Queues,
    Replies,
    RequestLog,
    Results,
    ResultsUnavailableError,
    StoredResult,
)
from headrace.ingest.refusal import Refusal
from headrace.runtime.clock import Clock
from headrace.runtime.logging import get_logger
from headrace.runtime.rarely import Rarely

_TRY_LATER = 5


@dataclass(frozen=True, slots=True)
class Asked:
    """One submission as it came over HTTP. `route` None: the native door. Durations as the caller wrote them."""

    tenant: str
    body: bytes
    route: str | None
    waits: bool
    tier: str | None = None
    deadline: str | None = None
    queue_timeout: str | None = None
    read_timeout: timedelta | None = None
    trace: Headers = ()


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that may be written: its record, its value, its trace headers, and the model as the caller named it."""

    record: RequestRecord
    value: bytes
    trace: Headers
    model: str


@dataclass(frozen=True, slots=True)
class Parts:
    """What the service is built from. Made in wiring.py."""

    policy: Policy
    id_key: bytes
    gateway: int
    log: RequestLog
    owners: Owners
    queues: Queues
    results: Results
    replies: Replies
    seal: Seal
    clock: Clock


class Ingest:
    """The service of one replica."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self._cancels: set[asyncio.Task[None]] = set()
        self._rarely = Rarely(get_logger("ingest"), parts.clock)

    def prepare(self, asked: Asked) -> Prepared:
        """Checks a submission and makes its record. Raises Refusal."""
        submission = read_submission(asked.body, asked.route)
        pool = which_pool(self.parts.policy, submission.model)
        tenant = self.parts.policy.tenants[asked.tenant]
        tier = which_tier(
            self.parts.policy,
            tenant,
            header=asked.tier,
            field=submission.options.tier,
            service_tier=submission.service_tier,
        )
        told = self.parts.queues.of(pool, tier)
        may_queue(told, asked.tenant, waits=asked.waits, random=random.random)
        return self._prepared(asked, submission, pool, tier)

    async def accept(self, prepared: Prepared) -> None:
        """Writes the request and waits for the acknowledgement. Raises Refusal: 413, or 503 `outcome_unknown`."""
        record = prepared.record
        try:
            await self.parts.log.accept(record, prepared.value, prepared.trace)
        except DoesNotFitError:
            raise too_large("The body is larger than the log takes.") from None
        except OutcomeUnknownError as error:
            self._rarely.warning("request not confirmed", request_id=record.id, reason=str(error))
            raise _outcome_unknown(record.id) from None

    def address_of(self, request_id: str, tenant: str) -> RequestAddress:
        """Where a request of this tenant lives. Raises Refusal (404), the same for a forged, foreign or unknown id."""
        address = verify_request_id(self.parts.id_key, request_id, tenant)
        if address is None:
            raise Refusal(404, "request_not_found", "There is no such request.")
        return address

    async def result_of(self, request_id: str, tenant: str, *, body: bool) -> StoredResult | None:
        """The committed result, None while there is none. Raises Refusal (503)."""
        try:
            return await self.parts.results.find(request_id, tenant, body=body)
        except ResultsUnavailableError as error:
            self._rarely.warning("results can't be read", request_id=request_id, reason=str(error))
            sentence = "Results can't be read just now; the request itself is safe."
            raise Refusal(
                503, "results_unavailable", sentence, retry_after=_TRY_LATER, request_id=request_id
            ) from None

    async def noted_model(
        self, request_id: str, tenant: str, address: RequestAddress, *, owner_knows: bool
    ) -> str | None:
        """The model of a request without a result, as far as it is noted. Raises Refusal: 410 when it is past its time, 503.

        It is past its time when results of its age are deleted, and neither the database nor the owner knows it.
        """
        try:
            model = await self.parts.results.accepted(request_id, tenant)
        except ResultsUnavailableError:
            return None
        if model is None and not owner_knows and self._may_be_gone(address):
            raise Refusal(410, "request_gone", "This request ended long ago and isn't kept any more.")
        return model

    async def check_kept(self, request_id: str, tenant: str, address: RequestAddress) -> None:
        """Before somebody waits for what will never come. Raises Refusal (410, 503)."""
        if self._may_be_gone(address) and await self.result_of(request_id, tenant, body=False) is None:
            await self.noted_model(request_id, tenant, address, owner_knows=False)

    def _may_be_gone(self, address: RequestAddress) -> bool:
        keep, now_ms = self.parts.policy.keep.results, self.parts.clock.now().wall_ms
        return keep is not None and address.accepted_ms + ms(keep) < now_ms

    async def ended_from(self, final: Final, value: bytes, tenant: str) -> Ended:
        """The outcome that a Final tells, its body from SQL where the Final doesn't carry it. Raises Refusal (503)."""
        if final.stored:
            found = await self.result_of(final.id, tenant, body=True)
            if found is not None:
                return found.ended
        body = self.parts.seal.open(value, final.payload.encoding, tenant=tenant, request_id=final.id)
        return Ended(
            id=final.id,
            status=final.status,
            http_status=final.http_status,
            attempt=final.attempt,
            body=body,
            content_type=final.payload.content_type,
            partial=final.partial,
            failure=final.failure,
            usage=final.usage,
        )

    def opened(self, heard: Heard, tenant: str) -> bytes:
        """The plain bytes of a chunk."""
        record = heard.record
        if not isinstance(record, Chunk):
            return b""
        return self.parts.seal.open(heard.value, record.payload.encoding, tenant=tenant, request_id=record.id)

    async def cancel(self, request_id: str, *, tenant: str, pool: str) -> None:
        """Asks the owner to cancel. Raises Refusal (503)."""
        try:
            await self.parts.log.cancel(request_id, tenant=tenant, pool=pool)
        except OutcomeUnknownError as error:
            self._rarely.warning("cancel not confirmed", request_id=request_id, reason=str(error))
            raise _outcome_unknown(request_id) from None

    def cancel_soon(self, record: RequestRecord) -> None:
        """The caller has hung up: cancel behind its back. Finished before the replica stops (`settle`)."""
        task = asyncio.ensure_future(self._cancel_quietly(record))
        self._cancels.add(task)
        task.add_done_callback(self._cancels.discard)

    async def settle(self) -> None:
        """Waits for the cancels that are under way."""
        if self._cancels:
            await asyncio.wait(self._cancels, timeout=5)

    async def _cancel_quietly(self, record: RequestRecord) -> None:
        with contextlib.suppress(Refusal):
            await self.cancel(record.id, tenant=record.tenant, pool=record.pool)

    def _prepared(self, asked: Asked, submission: Submission, pool: str, tier: str) -> Prepared:
        placed = self._placed(asked, submission, pool, tier)
        plain = _for_backend(asked, submission, placed.model)
        encoding, value = self.parts.seal.seal(plain, tenant=asked.tenant, request_id=placed.id)
        limits = self._deadlines(asked, submission, tier, placed.accepted_ms)
        payload = Payload(size=len(value), encoding=encoding)
        return Prepared(
            which_record(placed, submission, payload, limits), value, asked.trace, submission.model
        )

    def _placed(self, asked: Asked, submission: Submission, pool: str, tier: str) -> Placed:
        wall_ms = self.parts.clock.now().wall_ms
        partition = partition_of(asked.tenant, self.parts.policy.topics.tenant_partitions)
        request_id = mint_request_id(
            self.parts.id_key,
            tenant=asked.tenant,
            pool=pool,
            tier=tier,
            partition=partition,
            wall_ms=wall_ms,
            random=secrets.token_bytes(10),
        )
        return Placed(
            id=request_id,
            tenant=asked.tenant,
            pool=pool,
            tier=tier,
            partition=partition,
            model=self.parts.policy.pools[pool].models[submission.model],
            accepted_ms=wall_ms,
            gateway=self.parts.gateway,
            waits=asked.waits,
        )

    def _deadlines(self, asked: Asked, submission: Submission, tier: str, wall_ms: int) -> Deadlines:
        options = submission.options
        header = duration_or_refusal(asked.deadline, "X-Headrace-Deadline")
        field = duration_or_refusal(options.deadline, "deadline", "/headrace/deadline")
        timeout = duration_or_refusal(asked.queue_timeout, "X-Headrace-Queue-Timeout")
        waiting = duration_or_refusal(options.queue_timeout, "queue_timeout", "/headrace/queue_timeout")
        return which_deadline(
            wall_ms,
            self.parts.policy.tiers[tier].queue_timeout,
            queue_timeout=timeout or waiting,
            deadline=header or field,
            read_timeout=asked.read_timeout,
        )


def _for_backend(asked: Asked, submission: Submission, model: str) -> bytes:
    """The caller's bytes, less what is said to us, with the alias of the model replaced."""
    body = without_member(asked.body, "headrace") if asked.route is None else asked.body
    return body if model == submission.model else replace_model(body, model)


def _outcome_unknown(request_id: str) -> Refusal:
    sentence = (
        "The log didn't confirm the request in time, so its outcome is unknown: it may have been accepted or not. "
        "A later look at its id may find it; sending it again may do the work twice."
    )
    return Refusal(
        503, "outcome_unknown", sentence, retry_after=_TRY_LATER, may_retry=False, request_id=request_id
    )
