"""What `headrace queue freeze`, `thaw` and `frozen` make of what owners tell."""

from datetime import timedelta

import pytest

from headrace.cli.holds import Holds, holds_of
from headrace.contracts.observations import QueueState, Standby

NOW = 1_700_000_000_000


def told(tier: str, epoch: int, **more: object) -> QueueState:
    return QueueState(pool="p", tier=tier, epoch=epoch, as_of_ms=NOW, depth=9, **more)  # type: ignore[arg-type]


def test_the_newest_word_of_the_highest_owner_counts() -> None:
    states: list[QueueState | Standby] = [
        told("batch", 3, frozen=True, frozen_depth=9), told("batch", 2), told("gone", 2, frozen=True),
        told("standard", 3, frozen_tenants=("a", "b")), Standby(pool="p", replica="r", as_of_ms=NOW, rank=0),
        QueueState(pool="other", tier="batch", epoch=9, as_of_ms=NOW, depth=1),
    ]  # fmt: skip
    assert holds_of("p", enumerate(states)) == [
        Holds("batch", whole=True, tenants=(), depth=9, offset=0),
        Holds("standard", whole=False, tenants=("a", "b"), depth=0, offset=3),
    ]
    assert holds_of("p", []) == []


@pytest.mark.parametrize(
    ("tenant", "freezes", "tenants", "whole", "offset", "waited_s", "obeyed"),
    [
        ("a", True, ("a",), False, 7, 1, True),
        ("a", True, ("a",), False, 6, 9, False),
        ("a", True, ("b",), False, 9, 5, False),
        ("a", True, tuple(f"t{n}" for n in range(100)), False, 9, 5, True),
        ("a", False, (), False, 7, 1, True),
        ("a", False, ("a",), False, 9, 1, False),
        ("a", False, ("a",), False, 9, 3, True),
        (None, True, (), True, 7, 1, True),
        (None, True, (), False, 9, 5, False),
        (None, False, (), False, 7, 1, True),
        (None, False, (), True, 7, 1, False),
    ],
)
def test_an_order_is_obeyed_when_the_owner_has_said_so_since(
    tenant: str | None,
    freezes: bool,
    tenants: tuple[str, ...],
    whole: bool,
    offset: int,
    waited_s: int,
    obeyed: bool,
) -> None:
    holds = Holds("batch", whole, tenants, 0, offset)
    assert holds.obeys(tenant, 7, timedelta(seconds=waited_s), freezes=freezes) is obeyed
