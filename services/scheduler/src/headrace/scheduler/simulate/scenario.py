"""Makes a run's requests of a trace: whose each is, of which tier, until when. Called once for each seed.

Invariant: the same trace, scenario and seed give the same requests, whichever contender gets them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from headrace.contracts.policy import Policy, TenantPolicy
from headrace.scheduler.simulate.backend import BackendModel
from headrace.scheduler.simulate.jobs import Job
from headrace.scheduler.simulate.trace import Asked, TraceError

_ANYBODY = TenantPolicy()


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is done to the trace.

    `load`: what is asked for over what the backends can do, reached by stretching time; None: as it was recorded. `load_of`:
    the tier of which alone so much is asked for; None: all together.
    `requests`: how many, a stretch of the trace that the seed chooses; None: all. `tenants`: how many share the requests
    whose tenant the trace doesn't name, all of a conversation one; None: those of the policy. Of these, the first sends the
    share `largest`, and the others by Zipf's law with exponent `skew` (0: all alike). `tiers`: shares of the tiers; empty:
    each tenant's default. `slack_ms`: by tier, how much later than at once a request may end, from .. to; without: whenever.
    `longer`: by tier, how many times as long as in the trace its answers are; `longer_of_largest`: those of the first tenant.
    """

    load: float | None = None
    load_of: str | None = None
    requests: int | None = None
    tenants: int | None = None
    largest: float | None = None
    skew: float = 0.0
    tiers: Mapping[str, float] = field(default_factory=dict)
    slack_ms: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    longer: Mapping[str, int] = field(default_factory=dict)
    longer_of_largest: int = 1


def draw(
    trace: Sequence[Asked], scenario: Scenario, policy: Policy, models: Sequence[BackendModel], seed: int
) -> list[Job]:
    """The requests of one run, in order of time. Raises TraceError when the trace and the policy don't agree."""
    _refuse_unknown(trace, scenario, policy)
    dice = Random(seed)  # noqa: S311 - a run that can be had again, not a secret
    stretch = _stretch(trace, scenario.requests, dice)
    names, talks = _names(scenario, policy), dict[int, str]()
    whose = dice.choices(names, _shares(len(names), scenario), k=len(stretch))
    whose = [
        name if asked.conversation is None else talks.setdefault(asked.conversation, name)
        for name, asked in zip(whose, stretch, strict=True)
    ]
    first_ms = stretch[0].at_ms
    jobs = [
        Job(
            number=number,
            at_ms=asked.at_ms - first_ms,
            tenant=(tenant := asked.tenant or whose[number]),
            tier=asked.tier or _tier_of(tenant, scenario, policy, dice),
            input_tokens=asked.input_tokens,
            cached_tokens=asked.cached_tokens,
            output_tokens=asked.output_tokens,
            blocks=asked.blocks,
        )
        for number, asked in enumerate(stretch)
    ]
    for job in jobs:
        job.output_tokens *= scenario.longer.get(job.tier, 1)
        job.output_tokens *= scenario.longer_of_largest if job.tenant == names[0] else 1
    if scenario.load is not None:
        _stretch_time(jobs, scenario.load, scenario.load_of, models)
    for job in jobs:
        if job.tier in scenario.slack_ms:
            slack_ms = dice.randint(*scenario.slack_ms[job.tier])
            job.deadline_ms = job.at_ms + models[0].service_ms(job) + slack_ms
    return jobs


def _refuse_unknown(trace: Sequence[Asked], scenario: Scenario, policy: Policy) -> None:
    named = {asked.tier for asked in trace if asked.tier is not None}
    unknown = (named | set(scenario.tiers) | set(scenario.slack_ms)) - set(policy.tiers)
    if unknown:
        known = ", ".join(policy.tiers)
        raise TraceError([f"the policy has no tier {tier}; it has {known}" for tier in sorted(unknown)])
    if scenario.requests is not None and scenario.requests > len(trace):
        raise TraceError([f"{scenario.requests} requests are wanted, but the trace has {len(trace)}"])


def _stretch(trace: Sequence[Asked], requests: int | None, dice: Random) -> Sequence[Asked]:
    if requests is None:
        return trace
    begin = dice.randint(0, len(trace) - requests)
    return trace[begin : begin + requests]


def _names(scenario: Scenario, policy: Policy) -> list[str]:
    known = list(policy.tenants)
    count = scenario.tenants or len(known) or 1
    return known[:count] + [f"tenant-{number:02}" for number in range(len(known) + 1, count + 1)]


def _shares(count: int, scenario: Scenario) -> list[float]:
    """Of each tenant, summing to 1."""
    if scenario.largest is None or count == 1:
        return _zipf(count, scenario.skew)
    rest = 1 - scenario.largest
    return [scenario.largest, *(rest * share for share in _zipf(count - 1, scenario.skew))]


def _zipf(count: int, skew: float) -> list[float]:
    weights = [1 / rank**skew for rank in range(1, count + 1)]
    return [weight / sum(weights) for weight in weights]


def _tier_of(tenant: str, scenario: Scenario, policy: Policy, dice: Random) -> str:
    if scenario.tiers:
        return dice.choices(list(scenario.tiers), list(scenario.tiers.values()))[0]
    chosen = policy.tenants.get(tenant, _ANYBODY).default_tier
    return chosen if chosen in policy.tiers else next(iter(policy.tiers))


def _stretch_time(jobs: list[Job], load: float, load_of: str | None, models: Sequence[BackendModel]) -> None:
    """Move the arrivals closer or apart until what is asked for is so much of what the backends can do."""
    asked_ms = sum(models[0].work_ms(job) for job in jobs if load_of in (None, job.tier))
    wanted_ms = asked_ms / (load * sum(model.at_a_time for model in models))
    factor = wanted_ms / max(1, jobs[-1].at_ms)
    for job in jobs:
        job.at_ms = round(job.at_ms * factor)
