"""Which worker gets the next attempt. Called by core.releasing for each release, by core.routing where a request has hints.

Of those with room (how_much_may_a_backend_hold): without hints the least loaded in proportion to its limit. With hints
the one whose backend's cache probably saves most, by bounded loads (Mirrokni, Thorup, Zadimoghaddam, Consistent hashing
with bounded loads, SODA 2018): never one that holds more than 5/4 of its part of all that is held, or than a quarter of its
limit if that is more. Invariant: who names a session or sends long prompts can't load a backend beyond that.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

_SCALE = 1_000_000
_ABOVE_MEAN = (5, 4)
_ALWAYS = 4
"""A quarter of its limit a backend may hold however little the others do."""


class Candidate(NamedTuple):
    """A worker as this question sees it."""

    boot: str
    limit: int
    held: int
    room: int

    def with_one_more(self) -> "Candidate":
        """As it is once it was given another."""
        return Candidate(self.boot, self.limit, self.held + 1, self.room - 1)


class Warmth(NamedTuple):
    """What a backend probably has of a request; the greater is better, the first of them most.

    `blocks`: of its prompt's beginning, in its cache. `session`: ran its session last. `adapter`: ran its model last.
    """

    blocks: int = 0
    session: bool = False
    adapter: bool = False


COLD = Warmth()


def load_of(candidate: Candidate) -> tuple[int, int, str]:
    """The lesser is given work first: share of the limit that is held (millionths), attempts held, boot."""
    return (candidate.held * _SCALE // max(1, candidate.limit), candidate.held, candidate.boot)


def most_held(limit: int, *, held: int, limits: int) -> int:
    """The attempts that a backend may hold for a hint's sake; `held`, `limits`: of all together, with one more held."""
    above, mean = _ABOVE_MEAN
    return max(-(-above * held * limit // (mean * max(1, limits))), -(-limit // _ALWAYS))


def by_preference(
    candidates: Sequence[Candidate],
    warmth: Mapping[str, Warmth],
    *,
    held: int,
    limits: int,
    homes: Mapping[str, int] | None = None,
) -> list[Candidate]:
    """The candidates in the order in which a request had best be given to them.

    First those within their bound: the warmest, of equals the greatest of `homes` (see home_of; None: it has none), then the
    least loaded. Then the others, by load alone.
    """

    def key(candidate: Candidate) -> tuple[bool, Warmth, int, tuple[int, int, str]]:
        over = candidate.held >= most_held(candidate.limit, held=held + 1, limits=limits)
        warm = COLD if over else warmth.get(candidate.boot, COLD)
        home = 0 if over or homes is None else homes[candidate.boot]
        return (over, _colder(warm), -home, load_of(candidate))

    return sorted(candidates, key=key)


def home_of(key: str, name: str) -> int:
    """How much a worker of this name is a key's home: the greatest is (rendezvous hashing: Thaler, Ravishankar, 1998).

    The same for every owner, so that what has no past yet, or whose past a new owner doesn't know, finds the same place.
    """
    digest = blake2b(f"{key}/{name}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def _colder(warmth: Warmth) -> Warmth:
    """To be sorted by: the warmest first."""
    return Warmth(-warmth.blocks, not warmth.session, not warmth.adapter)
