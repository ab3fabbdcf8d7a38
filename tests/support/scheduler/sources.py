"""Traffic of a watched run: who sends how much of what, from when to when; lengths are those of a real trace.

Used by the pictures of docs/scheduling.md and their tests. Invariant: the same sources make the same requests.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from headrace.scheduler.simulate.backend import BackendModel
from headrace.scheduler.simulate.jobs import Job
from headrace.scheduler.simulate.trace import Asked, read_trace

TRACE = Path(__file__).resolve().parents[2] / "data/traces/azure2023_conv.csv"


@dataclass(frozen=True, slots=True)
class Source:
    """Sends, in the mean, `load` times what all slots can do. `longer`: its answers are so many times as long as the trace's;
    `slack_ms`: a deadline so much later than at once; `pause_s`: between these seconds of the run it sends nothing.
    """

    tenant: str
    load: float
    tier: str = "standard"
    user: str | None = None
    priority: int = 0
    longer: int = 1
    slack_ms: tuple[int, int] | None = None
    pause_s: tuple[int, int] | None = None


def sent(sources: Sequence[Source], model: BackendModel, seconds: int) -> list[Job]:
    """All that they send within so many seconds, in order of time."""
    found = [job for number, source in enumerate(sources) for job in _of(source, model, seconds, number)]
    found.sort(key=lambda job: job.at_ms)
    for number, job in enumerate(found):
        job.number = number
    return found


def _of(source: Source, model: BackendModel, seconds: int, seed: int) -> list[Job]:
    dice = Random(seed)  # noqa: S311 - a run that can be had again, not a secret
    found, at_ms, trace = list[Job](), 0.0, _trace()
    while True:
        asked = dice.choice(trace)
        job = Job(
            0, round(at_ms), source.tenant, source.tier, asked.input_tokens, 0, asked.output_tokens * source.longer,
            user=source.user, priority=source.priority,
        )  # fmt: skip
        if source.slack_ms is not None:
            job.deadline_ms = job.at_ms + model.service_ms(job) + dice.randint(*source.slack_ms)
        at_ms += dice.expovariate(1.0) * _mean_ms(model, source.longer) / (source.load * model.slots)
        if job.at_ms >= 1_000 * seconds:
            return found
        if source.pause_s is None or not source.pause_s[0] <= job.at_ms / 1_000 < source.pause_s[1]:
            found.append(job)


@cache
def _trace() -> list[Asked]:
    with TRACE.open(encoding="utf-8", newline="") as lines:
        return read_trace(lines, TRACE.name)


@cache
def _mean_ms(model: BackendModel, longer: int) -> float:
    """How long a request has a slot."""
    jobs = (Job(0, 0, "", "", asked.input_tokens, 0, asked.output_tokens * longer) for asked in _trace())
    return sum(map(model.service_ms, jobs)) / len(_trace())
