"""A policy says what is meant, or what is wrong with it, in a sentence with its place."""

import re
from datetime import timedelta
from typing import Any

import pytest

from headrace.contracts.policy import hash_key, policy_from

GOOD: dict[str, Any] = {
    "pools": {"main": {"models": {"small": "small-4k", "tiny": "tiny"}}},
    "tenants": {"acme": {"weight": 2, "key_sha256": [hash_key("acme-key")]}, "birch": {"key_sha256": []}},
    "tiers": {"standard": {"weight": 4, "queue_timeout": "90s"}},
}


def test_a_policy_answers_who_asks_and_which_pool_serves() -> None:
    policy = policy_from(GOOD)
    assert (policy.pool_of("small"), policy.pool_of("large")) == ("main", None)
    assert (policy.tenant_of("acme-key"), policy.tenant_of("other")) == ("acme", None)
    assert policy.tiers["standard"].queue_timeout == timedelta(seconds=90)
    assert policy.topics.counts().tenant_partitions == 8


def test_ceilings_say_what_they_count_and_let_a_sixth_be_spent_at_once() -> None:
    ceilings = [{"tokens": 600}, {"requests": 5, "per": "24h"}, {"requests": 60, "at_once": 2}]
    made = policy_from({"pools": {"p": {"models": {}, "ceilings": ceilings}}}).pools["p"].ceilings
    told = [(str(each.spent), each.amount, each.per, each.most_at_once) for each in made]
    minute, day = timedelta(minutes=1), timedelta(hours=24)
    assert told == [("tokens", 600, minute, 100), ("requests", 5, day, 1), ("requests", 60, minute, 2)]


def test_without_tiers_there_are_the_default_ones() -> None:
    assert set(policy_from({"pools": {}}).tiers) == {"interactive", "standard", "batch"}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"pools": {"a": {"models": {"m": "m"}}, "b": {"models": {"m": "m"}}}},
            "'m' is served by pool 'a' already",
        ),
        ({"tenants": {"acme": {"default_tier": "gold"}}}, "tenants.acme: there is no tier 'gold'"),
        (
            {"tenants": {"acme": {"tiers": []}}},
            "tenants.acme.default_tier: 'standard' is not among its tiers",
        ),
        (
            {
                "tiers": {
                    "standard": {"weight": 1, "floor_percent": 60},
                    "b": {"weight": 1, "floor_percent": 60},
                }
            },
            "add up",
        ),
        (
            {"tiers": {"standard": {"weight": 1, "queue_timeout": "soon"}}},
            "tiers.standard.queue_timeout: expected a duration",
        ),
        (
            {"tenants": {"acme": {"ceilings": [{"tokens": 5, "requests": 1}]}}},
            "tenants.acme.ceilings[0]: say either tokens or requests",
        ),
        (
            {"pools": {"p": {"models": {}, "ceilings": [{"tokens": 5}, {"tokens": 9, "per": "60s"}]}}},
            "pools.p.ceilings[1]: there is one of tokens per 1m already",
        ),
        (
            {"tenants": {"acme": {"ceilings": [{"tokens": 5, "per": "10ms"}]}}},
            "ceilings[0].per: not between 1s and",
        ),
        (
            {"tenants": {"acme": {"ceilings": [{"tokens": 5, "per": "soon"}]}}},
            "ceilings[0].per: expected a dur",
        ),
        ({"topics": {"min_insync_replicas": 2}}, "topics.min_insync_replicas: greater"),
        ({"pools": {"Main": {"models": {}}}}, "matching regex"),
        ({"pools": {"main": {"models": {"m": ""}}}}, "length >= 1"),
        ({"pools": {"main": {"models": {"m" * 129: "m"}}}}, "length <= 128"),
        ({"tenants": {"acme": {"weight": 0}}}, ">= 1"),
        ({"tenants": {"acme": {"key_sha256": ["secret"]}}}, "matching regex"),
        ({"tenants": {"acme": {"wieght": 2}}}, "wieght"),
        ({"surprise": {}}, "surprise"),
    ],
)
def test_a_mistake_is_told_with_its_place(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        policy_from({**GOOD, **change})
