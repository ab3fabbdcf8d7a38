"""Makes the record of a submission, and the question of a quote. Called by the service.

Invariant: nothing is written here, and whatever can't be kept is refused here, before anything is.
"""

import random
import secrets
from dataclasses import dataclass
from datetime import timedelta

import msgspec

from headrace.bus.messages import Headers
from headrace.contracts.explanations import MOST_TIERS_QUOTED, Quote
from headrace.contracts.ids import mint_request_id
from headrace.contracts.partitions import partition_of
from headrace.contracts.policy import Policy, TenantPolicy
from headrace.contracts.requests import RequestRecord
from headrace.contracts.seal import Seal
from headrace.contracts.values import Payload
from headrace.ingest.decisions.may_admit import which_pool
from headrace.ingest.decisions.may_fall_back import may_fall_back
from headrace.ingest.decisions.may_queue import may_queue
from headrace.ingest.decisions.read_submission import Submission, read_quote, read_submission
from headrace.ingest.decisions.replace_model import replace_model, without_member
from headrace.ingest.decisions.which_deadline import Deadlines, duration_or_refusal, which_deadline
from headrace.ingest.decisions.which_fairness_key import which_fairness_key
from headrace.ingest.decisions.which_prefix import which_prefix
from headrace.ingest.decisions.which_record import Placed, which_record
from headrace.ingest.decisions.which_session import which_session
from headrace.ingest.decisions.which_tier import allowed_tiers, which_tier
from headrace.ingest.ports import Queues
from headrace.ingest.refusal import Refusal, wrong_key
from headrace.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class Asked:
    """One submission as it came over HTTP. `route` None: the native door. Durations as the caller wrote them.

    `fairness_keys`, `sessions`: of the headers that name one, the strongest first.
    """

    tenant: str
    body: bytes
    route: str | None
    waits: bool
    tier: str | None = None
    deadline: str | None = None
    queue_timeout: str | None = None
    fallback: str | None = None
    read_timeout: timedelta | None = None
    fairness_keys: tuple[str | None, ...] = ()
    sessions: tuple[str | None, ...] = ()
    trace: Headers = ()


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that may be written: its record, its value, its trace headers, and the model as the caller named it."""

    record: RequestRecord
    value: bytes
    trace: Headers
    model: str


@dataclass(frozen=True, slots=True)
class Quoted:
    """A question to the owner, the model as the caller named it, and why the door would refuse it in each full tier."""

    quote: Quote
    model: str
    refused: dict[str, Refusal]


class Preparing:
    """From what came over HTTP to what is written. `policy`: what holds now; one that came later holds for later calls."""

    def __init__(
        self, policy: Policy, id_key: bytes, gateway: int, queues: Queues, seal: Seal, clock: Clock
    ) -> None:
        self.policy, self._id_key, self._gateway = policy, id_key, gateway
        self._queues, self._seal, self._clock = queues, seal, clock

    def prepare(self, asked: Asked) -> Prepared:
        """Checks a submission and makes its record. Raises Refusal."""
        submission = read_submission(asked.body, asked.route)
        pool, tier = self._place(asked, submission)
        may_queue(self._queues.of(pool, tier), asked.tenant, waits=asked.waits, random=random.random)
        return self._prepared(asked, submission, pool, tier)

    def quote(self, asked: Asked) -> Quoted:
        """Checks a submission that isn't meant yet: in its tier, and in the others of its tenant. Raises Refusal."""
        submission = read_quote(asked.body)
        pool, tier = self._place(asked, submission)
        placed = self._placed(asked, submission, pool, tier)
        limits = self._deadlines(asked, submission, tier, placed.accepted_ms)
        record = which_record(placed, submission, Payload(size=len(asked.body)), limits)
        allowed = allowed_tiers(self.policy, self._tenant(asked))
        tiers = (tier, *(name for name in allowed if name != tier))[:MOST_TIERS_QUOTED]
        found = ((name, self._full(pool, name, asked)) for name in tiers)
        return Quoted(
            Quote(request=msgspec.structs.replace(record, metadata={}), tiers=tiers),
            submission.model,
            {name: refusal for name, refusal in found if refusal is not None},
        )

    def _place(self, asked: Asked, submission: Submission) -> tuple[str, str]:
        """Pool and tier."""
        pool = which_pool(self.policy, submission.model)
        tier = which_tier(
            self.policy,
            self._tenant(asked),
            header=asked.tier,
            field=submission.options.tier,
            service_tier=submission.service_tier,
        )
        return pool, tier

    def _tenant(self, asked: Asked) -> TenantPolicy:
        """Its part of the policy. Raises Refusal (401) where it was taken out since its key was looked at."""
        tenant = self.policy.tenants.get(asked.tenant)
        if tenant is None:
            raise wrong_key()
        return tenant

    def _full(self, pool: str, tier: str, asked: Asked) -> Refusal | None:
        try:
            may_queue(self._queues.of(pool, tier), asked.tenant, waits=asked.waits, random=random.random)
        except Refusal as refusal:
            return refusal
        return None

    def _prepared(self, asked: Asked, submission: Submission, pool: str, tier: str) -> Prepared:
        placed = self._placed(asked, submission, pool, tier)
        plain = _for_backend(asked, submission, placed.model)
        encoding, value = self._seal.seal(plain, tenant=asked.tenant, request_id=placed.id)
        limits = self._deadlines(asked, submission, tier, placed.accepted_ms)
        payload = Payload(size=len(value), encoding=encoding)
        return Prepared(
            which_record(placed, submission, payload, limits), value, asked.trace, submission.model
        )

    def _placed(self, asked: Asked, submission: Submission, pool: str, tier: str) -> Placed:
        wall_ms = self._clock.now().wall_ms
        partition = partition_of(asked.tenant, self.policy.topics.tenant_partitions)
        request_id = mint_request_id(
            self._id_key,
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
            model=(model := self.policy.pools[pool].models[submission.model]),
            accepted_ms=wall_ms,
            gateway=self._gateway,
            waits=asked.waits,
            fairness_key=which_fairness_key(
                headers=asked.fairness_keys,
                field=submission.options.fairness_key,
                end_user=submission.end_user,
                secret=self._id_key,
            ),
            stays=not may_fall_back(asked.fallback, submission.options.fallback),
            prefix=which_prefix(submission.prompt, tenant=asked.tenant, model=model, secret=self._id_key),
            session=which_session(
                named=(*asked.sessions, submission.options.session, submission.cache_key),
                tenant=asked.tenant,
                secret=self._id_key,
            ),
        )

    def _deadlines(self, asked: Asked, submission: Submission, tier: str, wall_ms: int) -> Deadlines:
        options = submission.options
        header = duration_or_refusal(asked.deadline, "X-Headrace-Deadline")
        field = duration_or_refusal(options.deadline, "deadline", "/headrace/deadline")
        timeout = duration_or_refusal(asked.queue_timeout, "X-Headrace-Queue-Timeout")
        waiting = duration_or_refusal(options.queue_timeout, "queue_timeout", "/headrace/queue_timeout")
        return which_deadline(
            wall_ms,
            self.policy.tiers[tier].queue_timeout,
            queue_timeout=timeout or waiting,
            deadline=header or field,
            read_timeout=asked.read_timeout,
        )


def _for_backend(asked: Asked, submission: Submission, model: str) -> bytes:
    """The caller's bytes, less what is said to us, with the alias of the model replaced."""
    body = without_member(asked.body, "headrace") if asked.route is None else asked.body
    return body if model == submission.model else replace_model(body, model)
