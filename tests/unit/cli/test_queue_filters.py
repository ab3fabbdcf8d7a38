"""What the filters of `headrace queue` mean, and what they say of what can't be meant."""

from datetime import timedelta
from typing import Any

import pytest

from headrace.bus.messages import Place
from headrace.cli.queue_filters import Filters, State, older, patience_of, selection_of, until
from headrace.cli.trouble import Trouble
from headrace.contracts.policy import policy_from
from headrace.contracts.selections import Selection, Stage

NOW = 1_700_000_000_000
POLICY = policy_from({"pools": {"p": {"models": {"m": "m"}}}})


def selected(**options: Any) -> Selection:
    return selection_of(POLICY, **options)


def test_options_become_a_selection() -> None:
    assert selected() == Selection()
    assert selected(tier="batch", tenant="a", model="m", id_prefix="req_", state=State.QUEUED) == Selection(
        tier="batch", tenant="a", model="m", id_prefix="req_", stage=Stage.QUEUED
    )


def test_a_tenant_that_the_policy_does_not_name_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    named = policy_from({"pools": {"p": {"models": {"m": "m"}}}, "tenants": {"crew": {}}})
    assert selection_of(named, tenant="crew") == Selection(tenant="crew")
    assert capsys.readouterr().err == ""
    assert selection_of(named, tenant="crewe") == Selection(tenant="crewe")
    assert capsys.readouterr().err == 'headrace: the policy has no tenant crewe, did you mean "crew"?\n'


def test_an_age_goes_by_the_owners_clock() -> None:
    age = Filters(older_than="10m").age
    assert age is not None
    assert older(Selection(tenant="a"), age, NOW) == Selection(tenant="a", accepted_before_ms=NOW - 600_000)
    assert older(Selection(), timedelta(days=3650), NOW).accepted_before_ms == 1_577_836_800_000
    assert Filters().age is None


def test_an_order_means_what_stands_before_the_ends_of_the_logs() -> None:
    ends = {Place("t", 0): 5, Place("t", 1): 0, Place("u", 0): 7}
    assert until(Selection(tenant="a", accepted_before_ms=NOW), ends) == Selection(
        tenant="a", accepted_before_ms=NOW, stands_before={"t": {0: 5}, "u": {0: 7}}
    )
    assert until(Selection(), {Place("t", 0): 0}).stands_before == {}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"tier": "none"}, "the policy has no tier none; it has interactive"),
        ({"tenant": ""}, "--tenant has 0 characters; it takes 1 to 128"),
        ({"id_prefix": "x" * 257}, "--id has 257 characters"),
    ],
)
def test_what_can_not_be_meant_is_told(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(Trouble) as told:
        selected(**options)
    assert sentence in str(told.value)


def test_an_age_or_a_patience_without_a_unit_is_told() -> None:
    with pytest.raises(Trouble, match='--older-than is "10": expected a duration'):
        _ = Filters(older_than="10").age
    with pytest.raises(Trouble, match='--within is "5"'):
        patience_of("5")
