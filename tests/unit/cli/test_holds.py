"""What `headrace queue freeze`, `thaw` and `frozen` make of what owners tell."""

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
    assert holds_of("p", states) == [
        Holds("batch", whole=True, tenants=(), depth=9, as_of_ms=NOW),
        Holds("standard", whole=False, tenants=("a", "b"), depth=0, as_of_ms=NOW),
    ]
    assert holds_of("p", []) == []


@pytest.mark.parametrize(
    ("tenant", "freezes", "tenants", "whole", "after_ms", "obeyed"),
    [
        ("a", True, ("a",), False, 1, True),
        ("a", True, ("a",), False, 0, False),
        ("a", True, ("b",), False, 5_000, False),
        ("a", True, tuple(f"t{n}" for n in range(100)), False, 5_000, True),
        ("a", False, (), False, 1, True),
        ("a", False, ("a",), False, 1_000, False),
        ("a", False, ("a",), False, 3_000, True),
        (None, True, (), True, 1, True),
        (None, True, (), False, 5_000, False),
        (None, False, (), False, 1, True),
        (None, False, (), True, 1, False),
    ],
)
def test_an_order_is_obeyed_when_the_owner_has_said_so_since(
    tenant: str | None, freezes: bool, tenants: tuple[str, ...], whole: bool, after_ms: int, obeyed: bool
) -> None:
    holds = Holds("batch", whole, tenants, 0, NOW + after_ms)
    assert holds.obeys(tenant, NOW, freezes=freezes) is obeyed
