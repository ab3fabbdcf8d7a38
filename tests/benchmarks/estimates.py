"""How true it comes what the owner tells of waits: of each request that must wait, asked when it came, in virtual time.

    python -m tests.benchmarks.estimates [SEEDS]

Azure's conversations, 12 tenants of three tiers on four backends of 16 slots, at 0.95, 1.3 and twice what these can do; a
queue that grows for as long as a run lasts is the worst case. A wait is compared with what was told as the half of all wait
(`off`: true over told, a quarter second added to both), and said to be within the half and within what 19 of 20 wait. The
aim is 90 % within the latter. Once nobody comes any more, what is left is served faster than anybody could know: of those who
came in a run's first quarter, most start before. Invariant: nothing is asked but what a caller's query asks.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from headrace.bus.messages import message_of
from headrace.contracts.codec import decode
from headrace.contracts.control import Query
from headrace.contracts.policy import policy_from
from headrace.contracts.replies import Answer
from headrace.contracts.topics import TopicKind
from headrace.scheduler.decisions.estimate_wait import off_by
from headrace.scheduler.simulate.backend import BackendModel
from headrace.scheduler.simulate.comparing import Course, Entrant, compare
from headrace.scheduler.simulate.contender import Left, Order, Start
from headrace.scheduler.simulate.figures import percentile
from headrace.scheduler.simulate.jobs import Job
from headrace.scheduler.simulate.owner import Owner
from headrace.scheduler.simulate.scenario import Scenario
from tests.benchmarks.caches import trace_of
from tests.benchmarks.saying import say
from tests.support.entry import count_of, parser_of

LOADS, REQUESTS, TENANTS = (0.95, 1.3, 2.0), 3_000, 12
TIERS = ("interactive", "standard", "batch")
AIM = 0.9


class Told(NamedTuple):
    """When one asked, what was told of its wait, and what came of it; ms."""

    asked_ms: int
    p50_ms: int
    p95_ms: int | None
    waited_ms: int


class Asked(Owner):
    """The product, and callers who ask as soon as they wait. `told`: by tier, of those that have started."""

    def __init__(self, told: defaultdict[str, list[Told]], *args: Any) -> None:
        super().__init__(*args)
        self._told = told
        self._answers: dict[str, tuple[Answer, int]] = {}

    def turn(self, now_ms: int, arrived: Sequence[Job], left: Sequence[Left]) -> Sequence[Order]:
        """One step, and for those that came another with their queries."""
        ids = {job: each for job, each in self._scribe.ids.items() if job.sent_ms is None}
        orders = list(super().turn(now_ms, arrived, left))
        self._began(orders, ids | self._scribe.ids, now_ms)
        place = self._setting.place(TopicKind.CONTROL)
        waiting = [self._scribe.ids[job] for job in arrived if job in self._scribe.ids]
        if waiting:
            asked = (Query(id=each, nonce="n", gateway=0) for each in waiting)
            read = (self._scribe.received(message_of(place, query)) for query in asked)
            wall_ms = self._scribe.now(now_ms).wall_ms
            more = self._step([replace(each, timestamp_ms=wall_ms) for each in read])
            self._hear(now_ms)
            self._began(more, self._scribe.ids, now_ms)
            orders += more
        return orders

    def _hear(self, now_ms: int) -> None:
        topic = self._setting.place(TopicKind.REPLIES, 0).topic
        for send in self._outputs.sends:
            if send.message.topic == topic:
                answer = decode(TopicKind.REPLIES, dict(send.message.headers)["headrace"])
                if isinstance(answer, Answer) and answer.estimated_wait_ms is not None:
                    self._answers[answer.id] = answer, now_ms

    def _began(self, orders: Iterable[Order], ids: dict[Job, str], now_ms: int) -> None:
        for order in orders:
            heard = self._answers.pop(ids[order.job], None) if isinstance(order, Start) else None
            if heard is not None:
                answer, at_ms = heard
                most_ms = answer.estimated_wait_p95_ms
                self._told[order.job.tier].append(
                    Told(at_ms, answer.estimated_wait_ms or 0, most_ms, now_ms - at_ms)
                )


def told_at(load: float, seed: int, requests: int = REQUESTS) -> dict[str, list[Told]]:
    """By tier, of one run."""
    tenants = {f"tenant-{n:02}": {"default_tier": TIERS[n % 3]} for n in range(TENANTS)}
    policy = policy_from({"pools": {"main": {"models": {"m": "m"}}}, "tenants": tenants})
    scenario = Scenario(load=load, requests=requests)
    course = Course(trace_of("azure2023_conv"), scenario, policy, "main", [BackendModel(slots=16)] * 4)
    told = defaultdict[str, list[Told]](list)
    compare(course, {"": Entrant(partial(Asked, told, policy, "main"), policy)}, [seed])
    return told


def within(told: Sequence[Told]) -> float:
    """The share of those that started as soon as 19 of 20 were said to."""
    ranged = [each.waited_ms <= each.p95_ms for each in told if each.p95_ms is not None]
    return sum(ranged) / len(ranged) if ranged else 1.0


def of_first_quarter(run: Mapping[str, Sequence[Told]], tier: str) -> list[Told]:
    """Those of a tier who asked while the load went on for three times as long as it had."""
    last_ms = max(each.asked_ms for told in run.values() for each in told)
    return [each for each in run.get(tier, ()) if 4 * each.asked_ms <= last_ms]


def off_of(told: Iterable[Told]) -> list[float]:
    """Waits over what was told as the half."""
    return [off_by(each.waited_ms, each.p50_ms) / 1_000 for each in told]


def main(seeds: int) -> None:
    """A table."""
    head = "load  tier         waits   p50 s   p95 s   off p5  p50   p95   within p50  within p95"
    say(head + "   1st quarter: waits  off p50  within p95")
    for load in LOADS:
        runs = [told_at(load, seed) for seed in range(seeds)]
        for tier in TIERS:
            told = [each for run in runs for each in run.get(tier, ())]
            first = [each for run in runs for each in of_first_quarter(run, tier)]
            off, early = off_of(told), percentile((int(100 * each) for each in off_of(first)), 50) or 0
            seconds = [(percentile((each.waited_ms for each in told), at) or 0) / 1_000 for at in (50, 95)]
            low, middle, high = (percentile((int(100 * each) for each in off), at) or 0 for at in (5, 50, 95))
            half = sum(each.waited_ms <= each.p50_ms for each in told) / max(1, len(told))
            say(
                f"{load:4}  {tier:11} {len(told):6}  {seconds[0]:6.1f}  {seconds[1]:6.1f}   {low / 100:6.2f}"
                f"  {middle / 100:4.2f}  {high / 100:4.2f}   {half:10.2f}  {within(told):10.2f}"
                f"   {len(first):18}  {early / 100:7.2f}  {within(first):10.2f}"
            )


if __name__ == "__main__":
    main(count_of(parser_of(__spec__, __doc__), "seeds", 3, "runs at each load"))
