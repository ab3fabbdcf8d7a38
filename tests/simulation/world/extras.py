"""What only some seeds' worlds have: a second pool, ceilings, hints in requests, an operator's orders. Asked by world.run.

Invariant: drawn by a generator of its own, so that a seed without any of these is the history that it would be without them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random

import msgspec

from headrace.contracts.fallbacks import Fallback
from headrace.contracts.policy import CeilingPolicy, Policy, PoolPolicy
from tests.simulation.world.stage import AWAY, POLICY, TENANTS
from tests.support.scheduler.pure import POOL

_TEN = 10
_CEILINGS = (
    CeilingPolicy(requests=60, at_once=3),
    CeilingPolicy(tokens=900, at_once=30),
    CeilingPolicy(requests=20, per=timedelta(seconds=10), at_once=1),
)
"""Few enough to be reached by a burst, and enough for all to be done within some 20 s."""


@dataclass(frozen=True, slots=True)
class Extras:
    """`away`: workers of a second pool, which the first falls back on; 0: there is none. `orders`: so many of an operator.
    `hints`: requests say what their prompts begin with, and their session. Ceilings: of the first pool, of its tenants.
    """

    away: int = 0
    of_pool: CeilingPolicy | None = None
    of_tenants: Sequence[tuple[str, CeilingPolicy]] = ()
    hints: bool = False
    orders: int = 0

    @property
    def policy(self) -> Policy:
        """The policy file of such a world."""
        home, away = POLICY.pools[POOL], PoolPolicy(models={"other": "other"})
        if self.of_pool:
            home = msgspec.structs.replace(home, ceilings=(self.of_pool,))
        if self.away:
            fallback = Fallback(pool=AWAY, wait_above=timedelta(seconds=2))
            home = msgspec.structs.replace(home, fallbacks=(fallback,))
        tenants = dict(POLICY.tenants)
        for name, ceiling in self.of_tenants:
            tenants[name] = msgspec.structs.replace(tenants[name], ceilings=(ceiling,))
        pools = {POOL: home, AWAY: away} if self.away else {POOL: home}
        return msgspec.structs.replace(POLICY, pools=pools, tenants=tenants)


def extras_of(seed: int) -> Extras:
    """The seeds of every second ten have some: the first ten, the third, …"""
    if seed // _TEN % 2:
        return Extras()
    rng = Random(f"extras {seed}")  # noqa: S311 a seed is a history
    return Extras(
        away=rng.choice((0, 1, 2)),
        of_pool=rng.choice(_CEILINGS) if rng.random() < 0.25 else None,
        of_tenants=[(name, rng.choice(_CEILINGS)) for name in TENANTS if rng.random() < 0.25],
        hints=rng.random() < 0.5,
        orders=rng.choice((0, 0, 1, 2, 4)),
    )
