"""What a policy may say of fallbacks, and what can't be meant."""

from datetime import timedelta
from typing import Any

import pytest

from headrace.contracts.fallbacks import model_there
from headrace.contracts.policy import policy_from

POOLS: dict[str, Any] = {
    "big": {"models": {"big": "big-v1"}, "context_length": 4096},
    "small": {"models": {"small": "small-v1", "tiny": "tiny-v1"}},
    "third": {"models": {"third": "third-v1"}},
}


def with_fallbacks(**of_pools: list[dict[str, Any]]) -> dict[str, Any]:
    pools = {name: dict(pool) for name, pool in POOLS.items()}
    for name, fallbacks in of_pools.items():
        pools[name]["fallbacks"] = fallbacks
    return {"pools": pools}


def test_fallbacks_keep_their_order_and_durations_are_texts() -> None:
    policy = policy_from(
        with_fallbacks(
            big=[
                {"pool": "small", "model": "tiny", "wait_above": "20s", "too_long": True},
                {"pool": "third", "deadline": True, "cost_above": 50},
            ]
        )
    )
    first, second = policy.pools["big"].fallbacks
    assert (first.pool, first.wait_above, first.too_long) == ("small", timedelta(seconds=20), True)
    assert (second.pool, second.deadline, second.cost_above, second.wait_above) == ("third", True, 50, None)


@pytest.mark.parametrize(
    ("fallback", "sentence"),
    [
        ({"pool": "none", "deadline": True}, r"big.fallbacks\[0\]: there is no pool 'none'"),
        ({"pool": "third"}, "it names no condition"),
        ({"pool": "third", "wait_above": "0s"}, "wait_above must be more than nothing"),
        ({"pool": "third", "wait_above": "soon"}, r"pools.big.fallbacks\[0\].wait_above"),
        ({"pool": "third", "cost_above": 0}, "cost_above"),
        (
            {"pool": "small", "deadline": True},
            "model must say which of the models of the pool 'small' is meant",
        ),
        ({"pool": "small", "deadline": True, "model": "huge"}, "the pool 'small' serves no model 'huge'"),
        ({"pool": "big", "deadline": True}, "they lead round, big to big"),
        ({"pool": "third", "if_busy": True}, "if_busy"),
    ],
)
def test_a_mistake_in_a_fallback_is_told_with_its_place(fallback: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        policy_from(with_fallbacks(big=[fallback]))


def test_a_ring_is_told_once_with_its_way() -> None:
    ring = {
        "big": [{"pool": "third", "deadline": True}],
        "third": [{"pool": "small", "model": "tiny", "deadline": True}],
        "small": [{"pool": "big", "deadline": True}],
    }
    with pytest.raises(ValueError, match="they lead round") as told:
        policy_from(with_fallbacks(**ring))
    assert str(told.value) == "pools.big.fallbacks: they lead round, big to third to small to big"


def test_the_other_pools_name_for_a_model_is_the_same_or_the_only_or_the_wanted_one() -> None:
    two, one = {"a": "x", "b": "y"}, {"a": "x", "b": "x"}
    assert model_there(two, "y") == "y"
    assert model_there(two, "z") is None
    assert model_there(one, "z") == "x"
    assert model_there(two, "y", "a") == "x"
    assert model_there(two, "y", "c") is None
