"""Each lie that no reader needs any knowledge to see, by its reason; and nothing honest is called one."""

from typing import Any

import msgspec
import pytest

from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import AttemptId, mint_request_id
from headrace.contracts.lies import lie_in_attempt, lie_in_request
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import AttemptRecord, Verdict
from headrace.contracts.requests import RequestRecord
from headrace.contracts.values import Origin, Payload

K = FailureKind
WALL = 1_700_000_000_000


def minted(pool: str = "main", tier: str = "standard", partition: int = 3) -> str:
    return mint_request_id(
        b"k" * 32, tenant="a", pool=pool, tier=tier, partition=partition, wall_ms=WALL, random=bytes(10)
    )


REQUEST = RequestRecord(
    id=minted(), tenant="a", pool="main", tier="standard", partition=3, model="m", route="/r", accepted_ms=WALL,
    payload=Payload(size=2), gateway=0,
)  # fmt: skip
ATTEMPT = AttemptRecord(
    id=minted(), tenant="a", tier="standard", origin=Origin("requests.main.standard", 3, 0), attempt=AttemptId(1, 1),
    attempts=1, verdict=Verdict.DONE, status=Status.SUCCEEDED,
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"pool": "other"}, K.UNKNOWN_POOL),
        ({"tier": "batch"}, K.LYING_RECORD),
        ({"partition": 4}, K.LYING_RECORD),
        ({"id": "nonsense"}, K.LYING_RECORD),
        ({"id": minted(pool="other")}, K.LYING_RECORD),
        ({"id": minted(tier="batch")}, K.LYING_RECORD),
        ({"id": minted(partition=4)}, K.LYING_RECORD),
        *(({name: "a\0b"}, K.LYING_RECORD) for name in ("id", "tenant", "model", "route")),
        ({"id": minted(pool="other"), "hop": 1, "through": ("other",)}, None),
        ({"id": minted(pool="other"), "hop": 2, "through": ("other", "third")}, None),
        ({"id": minted(pool="other"), "hop": 1, "through": ("third",)}, K.LYING_RECORD),
        ({"id": minted(pool="other"), "hop": 2, "through": ("other",)}, K.LYING_RECORD),
        ({"id": minted(pool="other"), "hop": 1}, K.LYING_RECORD),
        ({"id": minted(pool="other"), "through": ("other",)}, K.LYING_RECORD),
        ({"id": minted(pool="other", tier="batch"), "hop": 1, "through": ("other",)}, K.LYING_RECORD),
        ({"id": minted(pool="other", partition=4), "hop": 1, "through": ("other",)}, K.LYING_RECORD),
        ({"hop": 1, "through": ("main",)}, K.LYING_RECORD),
    ],
)
def test_a_request_lies_about_its_place_its_id_or_in_what_it_names(
    changes: dict[str, Any], reason: FailureKind | None
) -> None:
    record = msgspec.structs.replace(REQUEST, **changes)
    lie = lie_in_request(record, pool="main", tier="standard", partition=3)
    assert (None if lie is None else lie.kind) == reason


@pytest.mark.parametrize(
    "changes",
    [
        {"tier": "batch"},
        {"origin": Origin("requests.main.standard", 4, 0)},
        {"id": "nonsense"},
        {"id": minted(partition=4)},
        {"id": minted(pool="other")},
        {"hop": 1},
        {"id": minted(pool="other", partition=4), "hop": 1},
        {"status": None},
        {"status": Status.RUNNING},
        *({name: "a\0b"} for name in ("tenant", "worker", "boot", "model")),
    ],
)
def test_an_attempt_lies_about_its_request_its_end_or_in_what_it_names(changes: dict[str, Any]) -> None:
    record = msgspec.structs.replace(ATTEMPT, **changes)
    lie = lie_in_attempt(record, pool="main", tier="standard", partition=3)
    assert lie is not None
    assert (lie.kind, lie.sentence[-1]) == (K.LYING_ATTEMPT, ".")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"verdict": Verdict.RETRY_AT, "status": None},
        {"id": minted(pool="other"), "hop": 1},
        {"id": "nonsense", "verdict": Verdict.DEAD, "status": Status.DEAD_LETTERED, "started": False},
    ],
)
def test_what_an_honest_writer_says_of_an_attempt_is_no_lie(changes: dict[str, Any]) -> None:
    record = msgspec.structs.replace(ATTEMPT, **changes)
    assert lie_in_attempt(record, pool="main", tier="standard", partition=3) is None


def test_an_attempt_at_a_request_of_another_pool_lies() -> None:
    assert lie_in_attempt(ATTEMPT, pool="main", tier=None, partition=3) is not None
