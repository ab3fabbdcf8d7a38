"""Who is stopped for a slot that is taken back: whoever loses least by it."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.commands import Run
from headrace.contracts.ids import AttemptId
from headrace.contracts.kept_text import MAX_TEXT_BYTES
from headrace.contracts.policy import CostWeights
from headrace.scheduler.decisions.whom_to_preempt import Running, stop_costs, whom_to_preempt
from tests.support.scheduler.case import Case
from tests.support.scheduler.owned_slots import policy, preempted, reported

WEIGHTS = CostWeights()
TOKENS = st.integers(0, 10**5)


@given(TOKENS, TOKENS, st.integers(1, 10**4))
def test_a_stop_costs_less_where_the_text_is_kept_and_more_the_more_is_said(
    prompt: int, answer: int, more: int
) -> None:
    kept, lost = (stop_costs(prompt, answer, WEIGHTS, kept=each) for each in (True, False))
    if 4 * answer <= MAX_TEXT_BYTES:
        assert kept == (prompt + answer) * WEIGHTS.prompt, "both are read again"
    else:
        assert kept == lost, "a text that is too long isn't kept"
    assert lost == prompt * WEIGHTS.prompt + answer * WEIGHTS.completion >= kept
    for each in (True, False):
        assert stop_costs(prompt, answer + more, WEIGHTS, kept=each) > stop_costs(
            prompt, answer, WEIGHTS, kept=each
        )


def test_who_goes_on_later_is_stopped_rather_than_who_loses_a_little_less_text() -> None:
    case = Case(policy())
    case.run()
    case.report(4)
    case.run(100)
    kept = [case.submit(plain_text=True, max_tokens=500) for _ in range(2)]
    for _ in range(2):
        case.submit(max_tokens=500)
    case.run(300)
    said = {run.attempt: 30 if run.request in kept else 20 for run in case.commands(Run)}
    reported(case, said)
    case.submit(into="interactive")
    case.run(600)
    stopped = [run.request for run in case.commands(Run) if run.attempt in preempted(case)]
    assert len(stopped) == 1
    assert stopped[0] in kept


def test_what_costs_least_goes_first_and_of_equals_the_last_released() -> None:
    def running(number: int, costs: int, **more: Any) -> Running:
        return Running(AttemptId(1, number), f"r{number}", costs, **{"times": 0, "preemptible": True, **more})

    found = [running(1, 5), running(2, 0), running(3, 0), running(4, 0, times=2), running(5, 0, preemptible=False),
             running(6, 0, tried_apart=True)]  # fmt: skip
    assert [each.id for each in whom_to_preempt(found, 9)] == ["r3", "r2", "r1"]
    assert [each.id for each in whom_to_preempt(found, 1)] == ["r3"]
    assert whom_to_preempt(found, 0) == whom_to_preempt(found, -1) == []
