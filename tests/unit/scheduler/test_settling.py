"""What an attempt spent is booked once, and teaches what the next is charged."""

from typing import Any

from headrace.contracts.commands import Run
from headrace.contracts.failures import FailureKind
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.values import Failure, Usage
from tests.support.scheduler.case import BOOT, Case
from tests.support.scheduler.pure import policy


def test_a_failed_attempt_whose_record_was_written_again_after_a_takeover_is_booked_once(case: Case) -> None:
    case.submit()
    case.run(300)
    [run] = case.commands(Run)
    failed: dict[str, Any] = {
        "failure": Failure(kind=FailureKind.BACKEND_ERROR), "usage": Usage(completion_tokens=1_000),
        "worker": "w", "boot": BOOT,
    }  # fmt: skip
    case.answer(run, Verdict.RETRY_AT, **failed)
    case.run(2_000)
    settled = case.core.state.accounts.of("batch", "a").settled
    assert settled > 0
    case.owner.crash()
    while case.owner.core is None:
        case.run(25)
    case.report(epoch=2)
    case.run(1_000)
    case.answer(run, Verdict.RETRY_AT, **failed)  # its writer had lost the acknowledgement
    case.run(500)
    assert case.core.state.accounts.of("batch", "a").settled == settled


def test_what_answers_had_of_late_is_what_the_next_is_charged_for(case: Case) -> None:
    unknown: dict[str, Any] = {"max_tokens": None, "prompt_tokens": 0}
    case.report(limit=20)
    for _ in range(20):
        case.submit(**unknown)
    case.run(300)
    assert {run.charge for run in case.commands(Run)} == {256 * 2_000_000}
    for run in case.commands(Run):
        usage = Usage(completion_tokens=7)
        case.answer(run, Verdict.DONE, status=Status.SUCCEEDED, usage=usage)
    case.submit(**unknown)
    case.run(1_200)
    assert case.commands(Run)[20].charge == 7 * 2_000_000


def test_a_success_of_which_nobody_says_what_it_spent_is_settled_on_its_charge(case: Case) -> None:
    for verdict, status in ((Verdict.DONE, Status.SUCCEEDED), (Verdict.DONE, Status.FAILED)):
        case.submit(prompt_tokens=3)
        case.run(200)
        case.answer(case.commands(Run)[-1], verdict, status=status)
        case.run(300)
    owner = case.owner.core
    assert owner is not None
    assert owner.state.accounts.of("batch", "a").settled == 3 * 1_000_000 + 2_000_000 + 1


def test_a_new_owner_gives_no_credit_for_slots_that_a_tenant_could_not_have() -> None:
    """It had its part of them all the time while others were served: its counter is lifted in checkpoints, too."""
    case = Case(policy())
    case.report(limit=4)
    for _ in range(6):
        case.submit(tenant="a")
    case.run(300)
    for _ in range(12):
        for tenant in "cd":
            case.submit(tenant=tenant)
    case.run(300)
    first, *usual = case.commands(Run)
    case.answer(first, Verdict.DONE, status=Status.SUCCEEDED)
    for _ in range(10):
        case.run(300)
        usage = Usage(completion_tokens=50)
        case.answer(case.commands(Run)[-1], Verdict.DONE, status=Status.SUCCEEDED, usage=usage)
    assert [run.request.tenant for run in case.commands(Run)] == ["a"] * 4 + ["c", "d"] * 5
    case.run(2_000)
    case.owner.crash()
    while case.owner.core is None:
        case.run(25)
    settled = {name: case.core.state.accounts.of("batch", name).settled for name in "acd"}
    assert settled["a"] + sum(run.charge for run in usual) >= min(settled["c"], settled["d"])
