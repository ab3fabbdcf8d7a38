"""Jobs, policies and courses for tests of the simulator."""

from typing import Any

from headrace.contracts.policy import Policy, policy_from
from headrace.contracts.prefixes import BLOCK_TOKENS
from headrace.scheduler.simulate.backend import BackendModel
from headrace.scheduler.simulate.comparing import Course
from headrace.scheduler.simulate.jobs import Job
from headrace.scheduler.simulate.scenario import Scenario
from headrace.scheduler.simulate.trace import Asked

MODEL = BackendModel(slots=4, prefill_per_s=1_000, token_us=10_000)


def policy(tenants: int = 4, **more: Any) -> Policy:
    named: dict[str, Any] = {f"t{number}": {} for number in range(tenants)}
    return policy_from({"pools": {"main": {"models": {"m": "m"}}}, "tenants": named, **more})


def job(number: int, at_ms: int = 0, tokens: int = 10, **more: Any) -> Job:
    shared: dict[str, Any] = {"tenant": "t0", "tier": "standard", "input_tokens": 100, "cached_tokens": 0}
    return Job(number=number, at_ms=at_ms, output_tokens=tokens, **{**shared, **more})


def course(jobs_of: Scenario, requests: int = 120, **more: Any) -> Course:
    trace = [Asked(100 * n, 50 + 7 * n % 90, 1 + 13 * n % 60) for n in range(requests)]
    shared: dict[str, Any] = {"policy": policy(), "pool": "main", "models": [MODEL], "warm_ms": 0}
    return Course(trace, jobs_of, **{**shared, **more})


def talks(count: int, turns: int) -> list[Asked]:
    """So many conversations at once; each turn's prompt is the last one's and five blocks more."""
    found = []
    for turn in range(turns):
        for number in range(count):
            blocks = tuple(1_000 * number + block for block in range(5 * (turn + 1)))
            tokens = len(blocks) * BLOCK_TOKENS
            found.append(Asked(4_000 * turn + 40 * number, tokens, 20, 0, None, None, blocks, number))
    return found
