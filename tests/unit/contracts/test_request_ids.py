"""A request id is genuine to its tenant alone, and says where the request lives."""

from base64 import b32decode, b32encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.ids import (
    REQUEST_PREFIX,
    AttemptId,
    MalformedIdError,
    RequestAddress,
    boot_id,
    mint_request_id,
    names_place,
    read_request_id,
    uuid7,
    verify_request_id,
)

KEY = b"k" * 32
NAMES = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,31}", fullmatch=True) | st.just("ü" * 16)
TIMES = st.integers(0, 2**48 - 1)
RANDOM = st.binary(min_size=10, max_size=10)


def minted(tenant: str = "acme", **more: object) -> str:
    fields: dict[str, object] = {
        "pool": "main",
        "tier": "standard",
        "partition": 5,
        "wall_ms": 10**12,
        "random": b"r" * 10,
    }
    return mint_request_id(KEY, tenant=tenant, **{**fields, **more})  # type: ignore[arg-type]


@given(
    pool=NAMES,
    tier=NAMES,
    partition=st.integers(0, 65_535),
    wall_ms=TIMES,
    random=RANDOM,
    tenant=st.text(st.characters(codec="utf-8"), max_size=20),
)
def test_an_id_says_what_was_minted_into_it(
    pool: str, tier: str, partition: int, wall_ms: int, random: bytes, tenant: str
) -> None:
    request_id = mint_request_id(
        KEY, tenant=tenant, pool=pool, tier=tier, partition=partition, wall_ms=wall_ms, random=random
    )
    address = RequestAddress(pool, tier, partition, wall_ms)
    assert read_request_id(request_id) == address
    assert verify_request_id(KEY, request_id, tenant) == address


@given(where=st.integers(0, 200), letter=st.sampled_from("abcdefghijklmnopqrstuvwxyz234567"))
def test_an_id_with_one_letter_changed_is_nobodys(where: int, letter: str) -> None:
    request_id = minted()
    where = len(REQUEST_PREFIX) + where % (len(request_id) - len(REQUEST_PREFIX))
    forged = request_id[:where] + letter + request_id[where + 1 :]
    assert verify_request_id(KEY, forged, "acme") == (
        read_request_id(forged) if forged == request_id else None
    )


def test_an_id_names_its_own_place_and_no_other() -> None:
    assert names_place(minted(), pool="main", tier="standard", partition=5)
    assert not names_place(minted(), pool="other", tier="standard", partition=5)
    assert not names_place(minted(), pool="main", tier="batch", partition=5)
    assert not names_place(minted(), pool="main", tier="standard", partition=6)
    assert not names_place("nonsense", pool="main", tier="standard", partition=5)


def test_an_id_is_genuine_to_its_tenant_and_its_key_alone() -> None:
    assert verify_request_id(KEY, minted(), "acme") is not None
    assert verify_request_id(KEY, minted(), "birch") is None
    assert verify_request_id(b"j" * 32, minted(), "acme") is None


@given(
    st.text(max_size=120)
    | st.text("abcdefghijklmnopqrstuvwxyz234567", max_size=120).map(REQUEST_PREFIX.__add__)
)
def test_whatever_is_no_id_is_malformed_and_nothing_worse(text: str) -> None:
    try:
        read_request_id(text)
    except MalformedIdError:
        assert verify_request_id(KEY, text, "acme") is None


@pytest.mark.parametrize(
    "spoilt",
    [
        minted().upper(),
        minted().removeprefix(REQUEST_PREFIX),
        minted() + "=",
        minted() + "a",
        minted() + " ",
        REQUEST_PREFIX,
        "",
        "é" * 60,
    ],
)
def test_one_request_has_one_spelling(spoilt: str) -> None:
    with pytest.raises(MalformedIdError):
        read_request_id(spoilt)


@given(st.text("abcdefghijklmnopqrstuvwxyz234567", max_size=120))
def test_what_is_read_is_what_base32_says(digits: str) -> None:
    try:
        raw = b32decode(digits.upper() + "=" * (-len(digits) % 8))
    except ValueError:
        raw = b""
    canonical = b32encode(raw).decode().rstrip("=").lower() == digits
    try:
        found = read_request_id(REQUEST_PREFIX + digits)
    except MalformedIdError:
        assert not canonical or not is_address(raw)
    else:
        assert canonical
        assert raw[16:18] == found.partition.to_bytes(2, "big")


def is_address(raw: bytes) -> bool:
    """Whether these bytes are of a request id's form, but for what its names may say."""
    at, ends = 18, len(raw) - 10
    for _ in ("pool", "tier"):
        if at >= ends or not raw[at]:
            return False
        try:
            raw[at + 1 : at + 1 + raw[at]].decode()
        except UnicodeDecodeError:
            return False
        at += 1 + raw[at]
    return at == ends


def test_names_that_do_not_fit_are_refused() -> None:
    for pool in ("", "x" * 33, "ü" * 17):
        with pytest.raises(ValueError, match=r"1\.\.32 bytes"):
            minted(pool=pool)


@given(wall_ms=TIMES, random=RANDOM)
def test_a_uuid_is_of_version_7_and_grows_with_time(wall_ms: int, random: bytes) -> None:
    raw = uuid7(wall_ms, random)
    assert (raw[6] >> 4, raw[8] >> 6) == (7, 0b10)
    if wall_ms:
        assert boot_id(wall_ms - 1, b"\xff" * 10) < boot_id(wall_ms, random)


def test_attempts_grow_with_the_epoch_first() -> None:
    assert AttemptId(2, 1) > AttemptId(1, 9)
    assert str(AttemptId(2, 1)) == "2.1"
