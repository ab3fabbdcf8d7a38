"""What waits is picked by its newest priority, in memory and spilled, and no bound of fairness moves by it."""

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.scheduler.decisions.pick_next import with_priority
from headrace.scheduler.state.accounts import Accounts
from headrace.scheduler.state.fair_queue import FairQueue
from headrace.scheduler.state.requests import Requests
from headrace.scheduler.state.spilled import Spilled
from headrace.scheduler.state.tracked import Phase, Tracked
from tests.support.scheduler.fair_bounds import BoundsWatch
from tests.support.scheduler.queue_alone import ONE_TIER, UNIT, QueueAlone, request


class QueueWithSpilled:
    """What waits, in memory and spilled, beside a plain list of it."""

    def __init__(self) -> None:
        self.accounts, self.spilled = Accounts(ONE_TIER, {}), Spilled()
        self.queue, self.requests = FairQueue(self.accounts, self.spilled), Requests(self.spilled)
        self.requests.came_back = self._came_back
        self.waiting: dict[str, Tracked] = {}

    def _came_back(self, tracked: Tracked) -> None:
        self.queue.enter(tracked)

    def put(self, tracked: Tracked, *, spilled: bool) -> None:
        self.waiting[tracked.id] = replace(tracked)
        self.requests[tracked.id] = tracked
        if spilled:
            self.queue.assign(tracked)
            assert self.requests.spill(tracked)
            self.queue.put_spilled(tracked)
        else:
            self.queue.put(tracked)

    def reprioritise(self, request_id: str, priority: int) -> None:
        here = self.requests.in_memory(request_id)
        self.waiting[request_id].order = with_priority(self.waiting[request_id].order, priority)
        if here is None:
            self.spilled.reprioritise(request_id, priority)
        else:
            self.queue.reorder(here, with_priority(here.order, priority))

    def next(self) -> Tracked | None:
        """With its payload read again where it is spilled, as core.spilling does."""
        found = self.queue.next(1_000)
        while found is None and self.spilled:
            (tenant,) = {tenant for _, tenant in self.spilled.in_order}
            stub = next(iter(self.queue.spilled_next("t", tenant)))
            tracked = self.requests.take_spilled(stub.id)
            tracked.received = self.waiting[stub.id].received
            self.queue.enter(tracked)
            found = self.queue.next(1_000)
        if found is not None:
            self.queue.take(found, Phase.HELD)
            self.requests.pop(found.id)
        return found


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "spill", "order", "order", "next"]), st.integers(0, 30), st.integers(-2, 2)
    ),
    max_size=40,
)


@settings(deadline=None)
@given(STEPS)
def test_what_waits_is_picked_by_its_newest_priority_wherever_it_is_kept(
    steps: list[tuple[str, int, int]],
) -> None:
    both = QueueWithSpilled()

    def judged() -> bool:
        first = min(both.waiting.values(), key=lambda each: each.order, default=None)
        found = both.next()
        assert (found and found.id) == (first and first.id)
        if found is not None:
            order = both.waiting.pop(found.id).order
            assert found.order == order
        return found is not None

    for number, (what, which, priority) in enumerate(steps):
        if what in ("put", "spill"):
            both.put(request(number, "a", "t", UNIT, priority=priority), spilled=what == "spill")
        elif what == "next":
            judged()
        elif both.waiting:
            both.reprioritise(list(both.waiting)[which % len(both.waiting)], priority)
        order = request(99, "a", "t", UNIT).order
        ahead = both.queue.ahead_of(request(99, "a", "t", UNIT).record, order)
        assert ahead.requests == sum(each.order < order for each in both.waiting.values())
    while judged():
        pass


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), slots=st.integers(1, 6))
def test_no_fairness_bound_moves_however_often_priorities_change(seed: int, slots: int) -> None:
    rng = Random(seed)  # noqa: S311
    run = QueueAlone(slots, {"f": rng.randint(1, 4), "g": rng.randint(1, 4)})
    watch, waiting = BoundsWatch(run), list[Tracked]()
    for _ in range(60):
        waiting += [run.put(name, rng.randint(1, 10) * UNIT, priority=rng.randint(-2, 2)) for name in "fg"]
    while run.backlogged() == {"f", "g"}:
        waiting = [each for each in waiting if each.phase is Phase.WAITING]
        for each in rng.sample(waiting, min(3, len(waiting))):
            run.queue.reorder(each, with_priority(each.order, rng.randint(-2, 2)))
        while run.dispatch() is not None:
            watch.look()
        if run.running:
            run.end(rng.choice(run.running), rng.randint(0, 20) * UNIT)
        watch.look()
    assert watch.worst_lag <= watch.lag_bound
    assert watch.worst_gap <= watch.gap_bound


def test_many_changes_leave_no_more_entries_than_twice_what_waits() -> None:
    run = QueueAlone(1, {})
    made = [run.put("a", UNIT) for _ in range(10)]
    for turn in range(1_000):
        run.queue.reorder(made[turn % 10], with_priority(made[turn % 10].order, turn))
    (flow,) = run.queue._tiers["t"].tenants["a"].flows.values()
    assert len(flow.heap) <= 2 * 10 + 64
    assert run.queue.next(1) is made[999 % 10]
