"""Which replica of the scheduler follows which in a pool. Called while standing by.

Invariant: every replica finds the same order from the same settings; where all begin together, the pools are spread evenly.
"""

from collections import Counter
from collections.abc import Sequence
from hashlib import sha256


def rank_of(
    replica: str, replicas: Sequence[str], pool: str, pools: Sequence[str], last_owner: str | None
) -> int:
    """This replica's place, from 0, among those that may follow. The last owner comes last: it has just failed, or left.

    `pools` are all of the policy. A replica that isn't named comes after those that are.
    """
    order = [name for name in _order(replicas, pool, pools) if name != last_owner]
    return order.index(replica) if replica in order else len(order)


def _order(replicas: Sequence[str], pool: str, pools: Sequence[str]) -> list[str]:
    """The pool's home first, then rendezvous order."""
    rest = _by_rendezvous(replicas, pool)
    home = _homes(replicas, pools).get(pool)
    return rest if home is None else [home, *(name for name in rest if name != home)]


def _by_rendezvous(replicas: Sequence[str], pool: str) -> list[str]:
    return sorted(set(replicas), key=lambda name: sha256(f"{pool}/{name}".encode()).digest())


def _homes(replicas: Sequence[str], pools: Sequence[str]) -> dict[str, str]:
    """Rendezvous with bounded load: each pool goes to the first in its order that hasn't its full share yet."""
    names = set(replicas)
    share = -(-len(set(pools)) // len(names)) if names else 0
    load: Counter[str] = Counter()
    homes = {}
    for pool in sorted(set(pools)) if names else ():
        homes[pool] = next(name for name in _by_rendezvous(replicas, pool) if load[name] < share)
        load[homes[pool]] += 1
    return homes
