"""A request that its worker was told to stop, and the text that it leaves. Used by tests of how it goes on."""

from typing import Any

from msgspec.structs import replace

from headrace.bus.messages import Received
from headrace.contracts.codec import decode, find_header
from headrace.contracts.commands import Run
from headrace.contracts.failures import FailureKind
from headrace.contracts.kept_text import TEXT_HEADER, KeptText
from headrace.contracts.outcomes import Verdict
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Failure
from headrace.scheduler.core.pool_state import PoolState
from tests.support.scheduler.case import BOOT, Case
from tests.support.scheduler.owned_slots import policy
from tests.support.scheduler.pure import place
from tests.support.scheduler.reports import held_of

SAID = b"Once upon a time"


def runs_of(case: Case, request: RequestRecord) -> list[Run]:
    return [run for run in case.commands(Run) if run.request.id == request.id]


def text_beside(case: Case, run: Run) -> bytes | None:
    """The text in the record of a `run`."""
    log = case.world.logs[place(TopicKind.WORK, 0)]
    (received,) = [each for each in log if decode(TopicKind.WORK, each.header) == run]
    return find_header(received.headers, TEXT_HEADER)


def leave(
    case: Case,
    run: Run,
    said: bytes = SAID,
    *,
    kind: FailureKind = FailureKind.PREEMPTED,
    tokens: int = 4,
    **more: Any,
) -> None:
    """The worker was told to stop this attempt, and hands it back with what it has said."""
    told = KeptText(attempt=run.attempt, size=max(1, len(said)), tokens=tokens, characters=max(1, len(said)))
    answer(case, run, said, failure=Failure(kind=kind), **{"text": told if said else None, **more})


def answer(case: Case, run: Run, value: bytes = b"", **more: Any) -> None:
    case.answer(run, Verdict.RETRY_AT, boot=BOOT, **more)
    log = case.world.logs[place(TopicKind.ATTEMPTS, run.request.partition)]
    log[-1] = replace(log[-1], value=value)


def began(case: Case | None = None) -> tuple[Case, RequestRecord, Run]:
    """A batch request that runs."""
    case = case or Case(policy())
    case.run()
    case.report(1)
    case.run(100)
    request = case.submit(plain_text=True, prompt_tokens=10, max_tokens=100)
    case.run(300)
    (run,) = runs_of(case, request)
    return case, request, run


def lives(case: Case, request: RequestRecord, seconds: int) -> None:
    """The worker reports, and holds the request's last attempt as long as its owner does."""
    for _ in range(seconds):
        run, of = runs_of(case, request)[-1], state_of(case).held.of(request.id)
        held = held_of(run)
        case.report(1, held=() if of is None else (held,))
        case.run(950)


def state_of(case: Case) -> PoolState:
    assert case.owner.core is not None
    return case.owner.core.state


def text_of_next(case: Case, request: RequestRecord) -> bytes | None:
    return state_of(case).texts.of(request.id)


def began_anew(received: Received) -> Received:
    """Another record stands at its place."""
    return Received(received.topic, received.partition, received.offset, 0, b"x", ())
