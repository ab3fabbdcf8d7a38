"""What of a new policy needs a restart, what needs topics first, and what goes on although it was taken out."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.policy import Policy, mistakes_in, policy_from
from headrace.contracts.policy_changes import comes, needs_a_restart, with_what_went

OLD: dict[str, Any] = {
    "pools": {"main": {"models": {"m": "m"}}},
    "tiers": {"standard": {"weight": 1}, "batch": {"weight": 1}},
    "tenants": {"acme": {}},
}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"tenants": {}},
        {"tenants": {"acme": {"weight": 9, "ceilings": [{"tokens": 5}]}, "birch": {}}},
        {
            "tiers": {
                "standard": {"weight": 7, "floor_percent": 9},
                "batch": {"weight": 1, "preemptible": True},
            }
        },
        {"pools": {"main": {"models": {"n": "m"}, "max_attempts": 9}}},
        {"keep": {"results": "1d"}},
    ],
    ids=str,
)
def test_opinions_change_while_services_run(change: dict[str, Any]) -> None:
    assert needs_a_restart(policy_from(OLD), policy_from({**OLD, **change})) == []


def test_counts_of_topics_need_a_restart() -> None:
    found = needs_a_restart(policy_from(OLD), policy_from({**OLD, "topics": {"lanes": 3, "history": 5}}))
    places = ["topics.lanes: 16 became 3", "topics.history: 10000 became 5"]
    assert [sentence.startswith(place) for sentence, place in zip(found, places, strict=True)] == [True] * 2


BIG: dict[str, Any] = {"models": {"n": "n"}, "fallbacks": [{"pool": "main", "model": "m", "deadline": True}]}
TIERS: dict[str, Any] = {
    "standard": {"weight": 1, "floor_percent": 60},
    "bulk": {"weight": 3, "floor_percent": 40, "headroom_percent": 10},
}


def test_pools_and_tiers_that_come_need_topics_and_no_restart() -> None:
    old, new = policy_from(OLD), policy_from({**OLD, "pools": {**OLD["pools"], "big": BIG}, "tiers": TIERS})
    assert needs_a_restart(old, new) == needs_a_restart(new, old) == []
    assert comes(old, new) == ["pools.big", "tiers.bulk"]
    assert comes(new, old) == ["tiers.batch"]
    assert comes(new, new) == []


def test_what_was_taken_out_goes_on_without_a_claim_on_what_there_is() -> None:
    old = policy_from({**OLD, "pools": {**OLD["pools"], "big": BIG}, "tiers": TIERS})
    new = policy_from({**OLD, "pools": {"main": {"models": {"n": "m"}}}})
    held = with_what_went(old, new)
    assert set(held.pools) == {"main", "big"}
    assert held.pools["main"] == new.pools["main"]
    assert held.pools["big"].fallbacks == ()
    assert held.pool_of("n") == "main", "a model that moved is served where it is now"
    assert set(held.tiers) == {"standard", "batch", "bulk"}
    bulk = held.tiers["bulk"]
    assert (bulk.weight, bulk.floor_percent, bulk.headroom_percent) == (3, 0, 0)
    assert (held.tenants, held.topics) == (new.tenants, new.topics)
    assert with_what_went(new, new) is new


tier_names = st.sets(st.sampled_from(["a", "b", "c", "d"]), min_size=1)


@given(st.lists(st.tuples(tier_names, tier_names), min_size=1, max_size=6))
def test_whatever_was_ever_known_is_known_for_good_and_what_the_file_says_is_as_it_says(
    files: list[tuple[set[str], set[str]]],
) -> None:
    def policy_of(pools: set[str], tiers: set[str], number: int) -> Policy:
        return policy_from(
            {
                "pools": {name: {"models": {name: f"{name}{number}"}} for name in sorted(pools)},
                "tiers": {
                    name: {"weight": number + 1, "floor_percent": 100 // len(tiers)} for name in sorted(tiers)
                },
            }
        )

    held = policy_of(*files[0], 0)
    pools, tiers = set(held.pools), set(held.tiers)
    for number, file in enumerate(files[1:], 1):
        new = policy_of(*file, number)
        held = with_what_went(held, new)
        pools, tiers = pools | set(new.pools), tiers | set(new.tiers)
        assert (set(held.pools), set(held.tiers)) == (pools, tiers)
        assert new.pools.items() <= held.pools.items()
        assert new.tiers.items() <= held.tiers.items()
        assert mistakes_in(held) == []
