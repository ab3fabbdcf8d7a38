"""Where a pool's requests may go instead, and when: a part of the policy, and checked with it. Read by the scheduler.

Invariant: pools that lead to each other never form a ring, so that nothing goes round between pools that are both full.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Protocol

from msgspec import Meta, Struct

from headrace.contracts.values import Name


class Fallback(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another pool for requests that wait, whichever of the conditions it names holds; they are asked for in order.

    `model`: a name that callers use there; needed where that pool has several and not the one that is asked for.
    `wait_above`: they have waited, and are expected to, for longer than that, or there has been no backend for as long.
    `cost_above`: they are expected to cost more, in service units. `too_long`: they don't fit this pool's context.
    `deadline`: it can't be kept here, but there.
    """

    pool: Name
    model: Name | None = None
    wait_above: timedelta | None = None
    cost_above: Annotated[int, Meta(ge=1, le=2**53)] | None = None
    too_long: bool = False
    deadline: bool = False


class _Pool(Protocol):
    @property
    def models(self) -> Mapping[str, str]: ...
    @property
    def fallbacks(self) -> tuple[Fallback, ...]: ...


def model_there(models: Mapping[str, str], model: str, wanted: str | None = None) -> str | None:
    """The name that another pool's backends know a model by. `models` are that pool's, `model` the name that the backends
    here know, `wanted` a name that callers use there. None: it isn't clear which.
    """
    if wanted is not None:
        return models.get(wanted)
    names = set(models.values())
    if model in names:
        return model
    return names.pop() if len(names) == 1 else None


def mistakes_in_fallbacks(pools: Mapping[str, _Pool]) -> list[str]:
    """What can't be meant, one sentence each, with the place in the file."""
    found = []
    for name, pool in pools.items():
        for number, fallback in enumerate(pool.fallbacks):
            place = f"pools.{name}.fallbacks[{number}]"
            found += [f"{place}: {sentence}" for sentence in _mistakes_in(fallback, name, pools)]
        ring = _ring_from(name, pools)
        if ring and name == min(ring):
            found.append(f"pools.{name}.fallbacks: they lead round, {' to '.join([*ring, name])}")
    return found


def _mistakes_in(fallback: Fallback, name: str, pools: Mapping[str, _Pool]) -> list[str]:
    there, here = pools.get(fallback.pool), pools[name]
    if there is None:
        return [f"there is no pool {fallback.pool!r}"]
    found = []
    if fallback.wait_above is not None and fallback.wait_above <= timedelta():
        found.append("wait_above must be more than nothing")
    if not (fallback.too_long or fallback.deadline or fallback.wait_above or fallback.cost_above):
        found.append("it names no condition: wait_above, cost_above, too_long or deadline")
    if fallback.model is not None and fallback.model not in there.models:
        found.append(f"the pool {fallback.pool!r} serves no model {fallback.model!r}")
    elif any(model_there(there.models, known, fallback.model) is None for known in here.models.values()):
        found.append(f"model must say which of the models of the pool {fallback.pool!r} is meant")
    return found


def _ring_from(name: str, pools: Mapping[str, _Pool]) -> list[str]:
    """The pools on a way that leads from this one back to it; empty when none does."""
    ways = [[name]]
    seen: set[str] = set()
    while ways:
        way = ways.pop()
        for fallback in pools[way[-1]].fallbacks:
            if fallback.pool == name:
                return way
            if fallback.pool in pools and fallback.pool not in seen:
                seen.add(fallback.pool)
                ways.append([*way, fallback.pool])
    return []
