"""A pool in which a tier owns slots that others may be stopped for. Used by tests of headroom and of texts that are kept."""

from typing import Any

from headrace.contracts.commands import Cancel, CancelReason, Run
from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import AttemptId
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.policy import Policy, policy_from
from headrace.contracts.values import Failure
from tests.support.scheduler.case import BOOT, Case
from tests.support.scheduler.pure import POOL
from tests.support.scheduler.reports import held_of

TIERS = ("interactive", "standard", "batch")


def policy(percent: int = 10, weight: int = 1) -> Policy:
    """Interactive work owns so many slots, batch work may be stopped, standard work may not."""
    return policy_from(
        {
            "pools": {POOL: {"models": {"m": "m"}}},
            "tiers": {
                "interactive": {"weight": weight, "headroom_percent": percent, "queue_timeout": "10m"},
                "standard": {"weight": 1, "queue_timeout": "10m"},
                "batch": {"weight": 100, "preemptible": True, "queue_timeout": "24h"},
            },
            "tenants": {"a": {"default_tier": "batch"}},
            "topics": {"tenant_partitions": 2, "lanes": 3, "gateways": 1},
        }
    )


def full_of(tier: str, limit: int = 4, percent: int = 10, weight: int = 1) -> Case:
    """A pool whose slots all hold long work of one tier, with more of it waiting."""
    case = Case(policy(percent, weight))
    case.run()
    case.report(limit)
    case.run(100)
    for _ in range(2 * limit):
        case.submit(into=tier)
    case.run(300)
    return case


def reported(case: Case, tokens: dict[AttemptId, int], limit: int = 4) -> None:
    """The worker says how far each attempt is."""
    runs = {run.attempt: run for run in case.commands(Run)}
    held = [held_of(run, tokens=done) for attempt, done in tokens.items() for run in (runs[attempt],)]
    case.report(limit, held=tuple(held))
    case.run(50)


def preempted(case: Case) -> list[AttemptId]:
    found = [each.attempt for each in case.commands(Cancel) if each.reason is CancelReason.PREEMPTED]
    return list(dict.fromkeys(found))


def give_back(case: Case, run: Run, **more: Any) -> None:
    case.answer(
        run,
        Verdict.RETRY_AT,
        failure=Failure(kind=FailureKind.PREEMPTED, message=""),
        boot=BOOT,
        started=True,
        **more,
    )


def end(case: Case, runs: list[Run]) -> None:
    for run in runs:
        case.answer(run, Verdict.DONE, status=Status.SUCCEEDED)
    case.run(300)
