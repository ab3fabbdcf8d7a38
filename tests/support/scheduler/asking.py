"""Asks a pool's owner as ingest does, and plays what it is asked about. Used by tests of `why` and of quotes."""

from typing import Any

from headrace.bus.messages import Message, message_of
from headrace.contracts.codec import decode, find_header
from headrace.contracts.commands import Run
from headrace.contracts.control import Query
from headrace.contracts.explanations import Why
from headrace.contracts.ids import mint_request_id
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.partitions import partition_of
from headrace.contracts.policy import Policy
from headrace.contracts.replies import Answer
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Payload, Times, Usage
from tests.support.scheduler.case import KEY, Case
from tests.support.scheduler.pure import POOL, place, policy


def request(case: Case, tenant: str = "a", tier: str = "batch", **more: Any) -> RequestRecord:
    """One that stands in no log yet."""
    case.count += 1
    wall, partition = case.world.now.wall_ms, partition_of(tenant, 2)
    made = mint_request_id(
        KEY, tenant=tenant, pool=POOL, tier=tier, partition=partition, wall_ms=wall,
        random=case.count.to_bytes(10, "big"),
    )  # fmt: skip
    fields = {"accepted_ms": wall, "max_tokens": 1, **more}
    return RequestRecord(
        id=made, tenant=tenant, pool=POOL, tier=tier, partition=partition, model="m", route="/r",
        payload=Payload(size=2), gateway=0, **fields,
    )  # fmt: skip


def submit(case: Case, tenant: str = "a", tier: str = "batch", **more: Any) -> RequestRecord:
    record = request(case, tenant, tier, **more)
    message = message_of(place(TopicKind.REQUESTS, record.partition, tier), record)
    case.world.append(Message(message.topic, message.partition, b"{}", message.headers))
    return record


def asked(case: Case, query: Query) -> Answer:
    """The answer that came over the log."""
    case.world.append(message_of(place(TopicKind.CONTROL), query))
    for _ in range(10):
        case.run(50)
        for found in case.world.records(TopicKind.REPLIES):
            if isinstance(found, Answer) and found.nonce == query.nonce:
                return found
    raise AssertionError("no answer within half a second")


def asked_why(case: Case, request_id: str) -> tuple[Answer, Why]:
    """The whole answer, and its part that says why."""
    answer = asked(case, Query(id=request_id, nonce=f"why-{case.world.now_ms}", gateway=0, why=True))
    assert answer.why is not None
    return answer, answer.why


def why(case: Case, request_id: str) -> Why:
    return asked_why(case, request_id)[1]


def why_at_once(case: Case, request_id: str) -> Why:
    """The same as things stand for this moment only, without a step of the owner in between."""
    core, query = case.core, Query(id=request_id, nonce="n", gateway=0, why=True)
    core.state.out.sends.clear()
    core._control._answering.answer(query)
    [sent] = core.state.out.sends
    found: Why = decode(TopicKind.REPLIES, find_header(sent.message.headers)).why
    return found


def started(made_policy: Policy | None = None, limit: int = 4, **report: Any) -> Case:
    case = Case(made_policy or policy())
    case.run()
    case.report(limit, **report)
    case.run(100)
    return case


def finish(case: Case, number: int, **more: Any) -> None:
    """So many of what runs end well, after a second."""
    for run in case.commands(Run)[:number]:
        wall_ms = case.world.now.wall_ms
        times = Times(started_ms=wall_ms - 1_000, first_token_ms=wall_ms - 900, finished_ms=wall_ms)
        usage = Usage(prompt_tokens=5, completion_tokens=11)
        fields = {"usage": usage, "times": times, "started": True, **more}
        case.answer(run, Verdict.DONE, status=Status.SUCCEEDED, **fields)
