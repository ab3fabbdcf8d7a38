"""The product's own cores, in virtual time: 500 histories each time, and every one that once found something."""

import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.simulation.seeds import EVERY_TIME, REGRESSIONS, never_seen, run_all, told
from tests.simulation.world.run import run_seed

_CHUNK = 50
CHUNKS = [EVERY_TIME[first : first + _CHUNK] for first in range(0, len(EVERY_TIME), _CHUNK)]
_SEEN: dict[range, Counter[str]] = {}


def seen_in(seeds: range) -> Counter[str]:
    """What these met; fails at the first that went wrong."""
    if seeds not in _SEEN:
        seen: Counter[str] = Counter()
        for verdict in run_all(seeds):
            if verdict.bad:
                pytest.fail(told(verdict))
            seen.update(verdict.seen)
        _SEEN[seeds] = seen
    return _SEEN[seeds]


@pytest.mark.parametrize("seeds", CHUNKS, ids=lambda seeds: f"{seeds.start}-{seeds.stop}")
def test_nothing_is_lost_and_nothing_is_repeated_without_cause(seeds: range) -> None:
    assert seen_in(seeds)["takeover"]


def test_the_seeds_have_met_everything_that_they_should() -> None:
    met: Counter[str] = Counter()
    for seeds in CHUNKS:
        met.update(seen_in(seeds))
    assert never_seen(met) == []


@pytest.mark.parametrize(("seed", "found"), REGRESSIONS)
def test_what_was_found_once_is_not_found_again(seed: int, found: str) -> None:
    verdict = run_seed(seed)
    assert not verdict.bad, f"{found}\n{told(verdict)}"


_DIGEST = """
from hashlib import sha256
from tests.simulation.world.run import run_seed
for seed in range(6):
    verdict = run_seed(seed)
    print(sha256(repr((verdict.notes, verdict.events, sorted(verdict.seen.items()))).encode()).hexdigest())
"""


def test_a_seed_is_a_history_whatever_the_order_of_hashes() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", _DIGEST],
            env={**os.environ, "PYTHONHASHSEED": hashes},
            capture_output=True, check=True, text=True, timeout=120,
        ).stdout
        for hashes in ("1", "2")
    }  # fmt: skip
    assert len(digests) == 1
