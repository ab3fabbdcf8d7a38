"""A seed is a plan, and each kind of blow is dealt to each kind of victim."""

import pytest

from tests.support.drill.plan import (
    ALL_BROKERS,
    BROKERS,
    DATABASE,
    ENGINES,
    NEEDED,
    OWNER,
    SERVICES,
    Action,
    planned,
)


def test_a_seed_is_a_plan() -> None:
    assert planned(7, 12, 40) == planned(7, 12, 40) != planned(8, 12, 40)


@pytest.mark.parametrize("kills", [1, 6, 40])
def test_a_plan_has_as_many_blows_as_it_is_told(kills: int) -> None:
    blows = planned(1, kills, 100)
    assert len(blows) == kills
    assert [blow.at_s for blow in blows] == sorted(blow.at_s for blow in blows)
    assert blows[-1].at_s <= 95


def test_what_a_run_needs_to_count_is_in_every_plan() -> None:
    for seed in range(20):
        dealt = [(blow.victim, blow.action) for blow in planned(seed, len(NEEDED), 60)]
        for card in NEEDED:
            assert any(action is card.action and victim in card.victims for victim, action in dealt)


def test_everything_is_struck_in_every_way() -> None:
    blows = [blow for seed in range(60) for blow in planned(seed, 40, 100)]
    dealt = {(blow.victim, blow.action) for blow in blows}
    ways = (Action.KILL, Action.PAUSE, Action.END, Action.CUT_SILENT, Action.CUT_SLAMMED)
    assert {(service, way) for service in SERVICES for way in ways} <= dealt
    assert {(broker, way) for broker in BROKERS for way in ways[:2]} <= dealt
    assert {(engine, way) for engine in ENGINES for way in (*ways[:2], *ways[3:])} <= dealt
    assert {
        (DATABASE, Action.LOCK),
        (DATABASE, Action.KILL),
        (ALL_BROKERS, Action.ROLL),
        (OWNER, Action.KILL),
    } <= dealt


def test_a_lasting_plan_ends_no_first_process_and_deals_as_many_blows() -> None:
    usual, lasting = planned(3, 300, 1_500), planned(3, 300, 1_500, lasting=True)
    ended = {blow.victim for blow in lasting if blow.action in {Action.KILL, Action.END}}
    first = {"scheduler", "inference-worker", "result-delivery", "ingest"}
    assert first & {blow.victim for blow in usual if blow.action is Action.KILL} == first
    assert not ended & {*first, OWNER}
    assert {"scheduler-2", "inference-worker-2", "result-delivery-2", "ingest-2"} <= ended
    assert len(lasting) == 300
    assert (OWNER, Action.PAUSE) in {(blow.victim, blow.action) for blow in lasting}
