"""What the filters of `headrace queue` mean, and what they say of what can't be meant."""

from typing import Any

import pytest

from headrace.cli.queue_filters import State, patience_of, selection_of, until
from headrace.cli.trouble import Trouble
from headrace.contracts.policy import policy_from
from headrace.contracts.selections import Selection, Stage

NOW = 1_700_000_000_000
POLICY = policy_from({"pools": {"p": {"models": {"m": "m"}}}})


def selected(**options: Any) -> Selection:
    return selection_of(POLICY, wall_ms=NOW, **options)


def test_options_become_a_selection() -> None:
    assert selected() == Selection()
    assert selected(
        tier="batch", tenant="a", model="m", id_prefix="req_", state=State.QUEUED, older_than="10m"
    ) == Selection(
        tier="batch",
        tenant="a",
        model="m",
        id_prefix="req_",
        stage=Stage.QUEUED,
        accepted_before_ms=NOW - 600_000,
    )
    assert selected(older_than="3650d").accepted_before_ms == 1_577_836_800_000


def test_an_order_means_nothing_that_comes_after_it() -> None:
    assert until(Selection(tenant="a"), NOW) == Selection(tenant="a", accepted_before_ms=NOW)
    assert until(Selection(accepted_before_ms=NOW - 5), NOW).accepted_before_ms == NOW - 5
    assert until(Selection(accepted_before_ms=NOW + 5), NOW).accepted_before_ms == NOW


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"tier": "none"}, "the policy has no tier none; it has interactive"),
        ({"tenant": ""}, "--tenant has 0 characters; it takes 1 to 128"),
        ({"id_prefix": "x" * 257}, "--id has 257 characters"),
        ({"older_than": "10"}, '--older-than is "10": expected a duration'),
    ],
)
def test_what_can_not_be_meant_is_told(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(Trouble) as told:
        selected(**options)
    assert sentence in str(told.value)


def test_a_patience_without_a_unit_is_told() -> None:
    with pytest.raises(Trouble, match='--within is "5"'):
        patience_of("5")
