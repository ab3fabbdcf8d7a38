"""What ingest does, apart from HTTP: knows callers, checks and writes requests, and says where they are.

Called by the doors. Invariant: `accept` returns only after the log's acknowledgement, and whatever is refused before it
has left nothing in the log.
"""

import asyncio
import contextlib
from dataclasses import dataclass, replace

from headrace.contracts.durations import ms
from headrace.contracts.ids import RequestAddress, verify_request_id
from headrace.contracts.policy import Policy
from headrace.contracts.replies import Chunk, Final
from headrace.contracts.requests import RequestRecord
from headrace.contracts.seal import Seal
from headrace.ingest.decisions.may_admit import too_large
from headrace.ingest.decisions.what_to_answer import Ended
from headrace.ingest.ports import (
    DoesNotFitError,
    Heard,
    NotWrittenError,
    OutcomeUnknownError,
    Owners,
    Queues,
    Replies,
    RequestLog,
    Results,
    ResultsUnavailableError,
    StoredResult,
)
from headrace.ingest.preparing import Asked, Prepared, Preparing
from headrace.ingest.refusal import Refusal
from headrace.runtime.clock import Clock
from headrace.runtime.logging import get_logger
from headrace.runtime.rarely import Rarely

_TRY_LATER = 5


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
        self.preparing = Preparing(
            parts.policy, parts.id_key, parts.gateway, parts.queues, parts.seal, parts.clock
        )
        self._cancels: set[asyncio.Task[None]] = set()
        self._rarely = Rarely(get_logger("ingest"), parts.clock)

    def adopt(self, policy: Policy) -> None:
        """Another policy holds for what is checked from now on; one that needs no restart."""
        self.parts = replace(self.parts, policy=policy)
        self.preparing.policy = policy

    def prepare(self, asked: Asked) -> Prepared:
        """Checks a submission and makes its record. Raises Refusal."""
        return self.preparing.prepare(asked)

    async def accept(self, prepared: Prepared) -> None:
        """Writes the request and waits for the acknowledgement. Raises Refusal: 413, or 503 `not_accepted` where it surely
        wasn't written, `outcome_unknown` where it may be.
        """
        record = prepared.record
        try:
            await self.parts.log.accept(record, prepared.value, prepared.trace)
        except DoesNotFitError:
            raise too_large("The body is larger than the log takes.") from None
        except NotWrittenError as error:
            self._rarely.warning("request not written", request_id=record.id, reason=str(error))
            raise _not_accepted("The request wasn't accepted") from None
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
            model=final.model,
        )

    def opened(self, heard: Heard, tenant: str) -> bytes:
        """The plain bytes of a chunk."""
        record = heard.record
        if not isinstance(record, Chunk):
            return b""
        return self.parts.seal.open(heard.value, record.payload.encoding, tenant=tenant, request_id=record.id)

    async def cancel(self, request_id: str, *, tenant: str, pool: str) -> None:
        """Asks the owner of the pool that its id names to cancel, which passes that on if the request has gone; where it is
        noted that it has, the other pool's owner too: the first may have none. Raises Refusal (503).
        """
        await asyncio.gather(
            self._cancel_at_home(request_id, tenant, pool), self._cancel_where_it_went(request_id, tenant)
        )

    async def _cancel_at_home(self, request_id: str, tenant: str, pool: str) -> None:
        try:
            await self.parts.log.cancel(request_id, tenant=tenant, pool=pool)
        except NotWrittenError as error:
            self._rarely.warning("cancel not written", request_id=request_id, reason=str(error))
            raise _not_accepted("The cancellation wasn't kept") from None
        except OutcomeUnknownError as error:
            self._rarely.warning("cancel not confirmed", request_id=request_id, reason=str(error))
            raise _outcome_unknown(request_id) from None

    async def _cancel_where_it_went(self, request_id: str, tenant: str) -> None:
        """A short cut: whatever fails here, the cancel stands in the first pool's log."""
        try:
            went = await self.parts.results.passed_on(request_id, tenant)
            if went is not None and went.pool in self.parts.policy.pools:
                await self.parts.log.cancel(request_id, tenant=tenant, pool=went.pool, hop=went.hop)
        except (ResultsUnavailableError, OutcomeUnknownError, NotWrittenError) as error:
            self._rarely.warning(
                "cancel isn't told where its request went", request_id=request_id, reason=str(error)
            )

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


def _not_accepted(what: str) -> Refusal:
    sentence = f"{what}: the log takes nothing just now. Nothing was written, so it is safe to send it again."
    return Refusal(503, "not_accepted", sentence, retry_after=_TRY_LATER, may_retry=True)


def _outcome_unknown(request_id: str) -> Refusal:
    sentence = (
        "The log didn't confirm the request in time, so its outcome is unknown: it may have been accepted or not. "
        "A later look at its id may find it; sending it again may do the work twice."
    )
    return Refusal(
        503, "outcome_unknown", sentence, retry_after=_TRY_LATER, may_retry=False, request_id=request_id
    )
