"""A policy says what is meant, or what is wrong with it, in a sentence with its place."""

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
    with pytest.raises(ValueError, match=sentence.replace(".", r"\.")):
        policy_from({**GOOD, **change})
