"""What of a new policy needs a restart: what decides which topics there are, and nothing else."""

from typing import Any

import pytest

from headrace.contracts.policy import policy_from
from headrace.contracts.policy_changes import needs_a_restart

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


@pytest.mark.parametrize(
    ("change", "places"),
    [
        ({"pools": {"main": {"models": {}}, "big": {"models": {}}}}, ["pools.big: added"]),
        ({"pools": {"big": {"models": {}}}}, ["pools.big: added", "pools.main: removed"]),
        ({"tiers": {"standard": {"weight": 1}}}, ["tiers.batch: removed"]),
        (
            {"topics": {"lanes": 3, "history": 5}},
            ["topics.lanes: 16 became 3", "topics.history: 10000 became 5"],
        ),
    ],
    ids=str,
)
def test_what_decides_on_topics_needs_a_restart(change: dict[str, Any], places: list[str]) -> None:
    found = needs_a_restart(policy_from(OLD), policy_from({**OLD, **change}))
    assert len(found) == len(places)
    assert all(sentence.startswith(place) for sentence, place in zip(found, places, strict=True))
