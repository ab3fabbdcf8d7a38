"""Which change of policy an owner goes on with, and for which it gives its pool up and takes it over again."""

from dataclasses import replace as replace_in
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.bus.memory import MemoryBus
from headrace.bus.topic_check import apply_topics, lacking
from headrace.contracts.commands import Run
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.policy import Policy, TierPolicy, policy_from
from headrace.contracts.policy_changes import with_what_went
from headrace.contracts.reports import Gauges, Held
from headrace.contracts.topics import TopicKind, TopicNames, required_topics
from headrace.scheduler.decisions.must_it_begin_anew import must_begin_anew
from headrace.scheduler.settings import SchedulerSettings
from headrace.scheduler.wiring import topics_that_come
from tests.support.scheduler.case import Case
from tests.support.scheduler.live import Ownerships, Pool, turn_until
from tests.support.scheduler.processes import SimScheduler
from tests.support.scheduler.pure import POOL, policy
from tests.support.scheduler.reports import held_of

names = st.sets(st.sampled_from(["a", "b", "c"]), min_size=1)


def policy_of(pools: set[str], tiers: set[str], weight: int = 1) -> Policy:
    document: dict[str, Any] = {
        "pools": {name: {"models": {name: name}} for name in pools},
        "tiers": {name: {"weight": weight} for name in tiers},
    }
    return policy_from(document)


@given(names, names, names, names)
def test_other_logs_to_read_need_a_new_beginning_and_nothing_else_does(
    pools: set[str], tiers: set[str], other_pools: set[str], other_tiers: set[str]
) -> None:
    old, new = policy_of(pools, tiers), policy_of(other_pools, other_tiers, weight=7)
    anew = must_begin_anew(old, new)
    assert anew == (tiers != other_tiers or (len(pools) > 1) != (len(other_pools) > 1))
    held = with_what_went(old, new)
    if other_pools <= pools and other_tiers <= tiers:
        assert not must_begin_anew(old, held), "what goes is served on, so it takes none"


def adopted(change: dict[str, Any]) -> Case:
    """An owner that was given another policy in place, though it should have begun anew, and then a request."""
    case = Case()
    case.run()
    case.report()
    case.run(100)
    core = case.owner.core
    assert core is not None
    core.adopt(policy_from(change))
    case.run(100)
    return case


def test_an_owner_that_is_given_other_tiers_in_place_could_not_go_on() -> None:
    """So somebody has to ask."""
    old = policy()
    tiers: dict[str, Any] = {"interactive": {"weight": 4}}
    change = {"pools": {POOL: {"models": {"m": "m"}}}, "tiers": tiers, "topics": {"tenant_partitions": 2}}
    assert must_begin_anew(old, policy_from(change))
    with pytest.raises(KeyError):
        adopted(change)


def test_an_owner_takes_its_pool_over_anew_for_a_tier_that_comes_and_keeps_one_that_goes() -> None:
    pool = Pool(MemoryBus(), "t.", policy())
    scheduler, owners = pool.scheduler("one"), Ownerships(pool)
    more = replace(pool.policy, tiers={**pool.policy.tiers, "bulk": TierPolicy(weight=2)})
    topics = pool.bus.topics("apply")
    apply_topics(
        topics, required_topics(pool.names, more.topics.counts(), pools=more.pools, tiers=more.tiers)
    )

    def turn_on() -> tuple[int, bool]:
        """Some checkpoints more; the owner's epoch, and whether it owns the pool."""
        turn_until(pool, [scheduler.turn], lambda: owners.open_by("one"))
        stand = len(owners.all())
        turn_until(pool, [scheduler.turn], lambda: len(owners.all()) > stand + 6)
        return owners.all()[-1].epoch, owners.open_by("one")

    assert turn_on() == (1, True)
    scheduler.adopt(more)
    assert turn_on() == (2, True), "it began anew"
    scheduler.adopt(pool.policy)
    assert turn_on() == (2, True), "it goes on as it was"
    scheduler.stop()
    owners.close()
    pool.close()


def test_a_replica_of_named_pools_takes_what_comes_after_one_of_them_went() -> None:
    """It serves that pool on, and its settings name it for as long as it runs: no topic of it is new."""
    settings, topics = SchedulerSettings(name="one", pools=("a", "b")), MemoryBus().topics("apply")
    here = policy_of({"a", "c"}, {"one", "two"})
    required = list(
        required_topics(TopicNames(settings.prefix), here.topics.counts(), pools="a", tiers=here.tiers)
    )
    apply_topics(topics, required)
    assert lacking(lambda: topics, topics_that_come(settings, here)) is None
    needed = {topic.name for topic in topics_that_come(settings, here)}
    assert {name for name in needed if ".requests." in name} == {
        f"{settings.prefix}requests.a.{tier}" for tier in ("one", "two")
    }


def owned_anew(case: Case, made: Policy, held: tuple[Held, ...], **more: Any) -> None:
    """The owner dies, and another comes by this policy; the worker holds these. `more`: what else it reports."""
    setting = replace_in(case.owner.setting, policy=made)
    case.owner.crash()
    case.owner = SimScheduler(case.world, 0)
    case.owner.setting = setting
    for _ in range(16):
        case.run(500)
        if case.owner.core is not None:
            case.report(epoch=case.core.state.epoch, held=held, **more)
    assert case.core.state.open


def runs_of_a_tier_that_went(verdict: Verdict, status: Status | None) -> int:
    """How often a request is run whose attempt ends so under an owner that was restarted without its tier, once that is back:
    nobody chose that moment.
    """
    both = policy()
    case = Case(both)
    case.run()
    case.report()
    case.run(100)
    case.submit(into="interactive")
    case.run(1_500)
    [run] = case.commands(Run)
    case.report(held=(held_of(run),))
    owned_anew(case, replace(both, tiers={"batch": both.tiers["batch"]}), (held_of(run),))
    case.answer(run, verdict, status=status, started=True, worker="w")
    case.report(epoch=2)
    case.run(1_500)
    assert case.world.records(TopicKind.DLQ) == [], "it is no lie"
    owned_anew(case, both, ())
    return len(case.commands(Run))


def test_what_ends_in_a_tier_that_a_new_owner_doesnt_serve_isnt_run_again() -> None:
    assert runs_of_a_tier_that_went(Verdict.DONE, Status.SUCCEEDED) == 1


def test_what_fails_there_runs_again_once_its_tier_is_back() -> None:
    assert runs_of_a_tier_that_went(Verdict.RETRY_AT, None) > 1


def case_of_a_tier_that_went(**more: Any) -> tuple[Case, Held]:
    """A new owner doesn't know the tier of the one attempt that its worker holds. `more`: what else the worker reports."""
    both = policy()
    case = Case(both)
    case.run()
    case.report(**more)
    case.run(100)
    case.submit(into="interactive")
    case.run(1_500)
    [run] = case.commands(Run)
    held = held_of(run)
    case.report(held=(held,), **more)
    owned_anew(case, replace(both, tiers={"batch": both.tiers["batch"]}), (held,), **more)
    return case, held


def let_run(case: Case) -> int:
    """How many attempts the present owner has let run."""
    return sum(run.attempt.epoch == case.core.state.epoch for run in case.commands(Run))


def test_what_runs_of_a_tier_that_went_takes_its_slot_until_it_ends() -> None:
    case, held = case_of_a_tier_that_went(limit=3)
    for _ in range(5):
        case.submit()
    case.run(1_500)
    assert let_run(case) == 2, "three fit, and one runs"
    assert case.core.fleet.held == 3
    mine = tuple(held_of(run) for run in case.commands(Run) if run.attempt.epoch == 2)
    case.report(epoch=2, limit=3, held=(held, *mine))
    case.run(1_500)
    assert let_run(case) == 2
    case.report(epoch=2, limit=3, held=mine)
    case.run(1_500)
    assert let_run(case) == 3, "it has ended"


def test_what_runs_of_a_tier_that_went_takes_its_part_of_the_cache() -> None:
    for so_far, released in ((0, 2), (300, 1)):
        case, held = case_of_a_tier_that_went(limit=8, gauges=Gauges(sample=1, waiting=0, kv_tokens=900))
        grown = replace(held, tokens=so_far)
        case.report(epoch=2, limit=8, held=(grown,), gauges=Gauges(sample=2, waiting=0, kv_tokens=900))
        for _ in range(5):
            case.submit(prompt_tokens=400)
        case.run(1_500)
        assert let_run(case) == released


def test_beside_a_suspect_of_a_tier_that_went_nothing_runs() -> None:
    case, held = case_of_a_tier_that_went()
    case.report(epoch=2, held=(replace(held, trial=1),))
    case.submit()
    case.run(1_500)
    assert let_run(case) == 0, "who would die with it would be suspected, too"
    case.report(epoch=2)
    case.run(1_500)
    assert let_run(case) == 1
