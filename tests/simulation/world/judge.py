"""The verdict on a run that has come to rest, from what really happened: logs, database, runs, what readers were sent.

Called by world.run and by written schedules. Invariant: no product code is asked what is right.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.pool_core import PoolCore
from tests.simulation.world.evidence import Evidence, text_of
from tests.simulation.world.journal import history_of
from tests.simulation.world.outsiders_told import outsiders_told
from tests.simulation.world.protocol_kept import protocol_kept
from tests.support.checker import judging as checker

if TYPE_CHECKING:
    from tests.simulation.world.run import World


def judge(world: World) -> list[str]:
    """Every violation, a sentence each."""
    facts = Evidence(world)
    return [
        *world.stage.broken,
        *protocol_kept(facts),
        *outsiders_told(facts),
        *_at_rest(facts),
        *_by_the_oracle(facts),
    ]


def _at_rest(facts: Evidence) -> Iterator[str]:
    """At rest nothing is charged, held or left in a window, and everybody is served."""
    if not facts.world.at_rest():
        yield f"rest: it doesn't come to rest ({_restless(facts.world)})"
    owners = [owner for owner in facts.world.owners() if owner is not None]
    if facts.world.owner() is None:
        return
    for owner in owners:
        yield from _left_over(owner)
    junk = facts.world.callers.garbage
    if junk and not facts.of(TopicKind.DLQ) and any(True for _ in facts.undecodable()):
        yield "rest: an undecodable record has no dead letter"


def _left_over(owner: PoolCore) -> Iterator[str]:
    state = owner.state
    tiers = state.accounts.tiers.values()
    each = [tier.account for tier in tiers] + [a for tier in tiers for a in tier.tenants.values()]
    if any(account.in_flight or account.charged for account in each):
        yield "rest: charges are left over"
    if any(p.records or p.size for p in state.partitions.by_place.values()):
        yield "rest: a window isn't empty"
    kept = state.retrying, state.cancels, state.bulk_cancels, state.overdue, state.reroutes, state.passed_on
    if any(kept):
        yield "rest: something is kept of requests that have ended"


def _restless(world: World) -> str:
    owner = world.owner()
    held = None if owner is None else [h.id[-6:] for h in owner.state.held.all()]
    tracked = None if owner is None else {t.id[-6:]: str(t.phase) for t in owner.state.tracked.values()}
    return (
        f"owner {owner and owner.state.setting.owner}, held {held}, tracked {tracked}, "
        f"unfinished {world.unfinished()}, undelivered {world.undelivered()}, "
        f"callers {world.callers.left}, told {world.callers.all_told}"
    )


def _by_the_oracle(facts: Evidence) -> Iterator[str]:
    """What the checker says, which the drills use, too."""
    texts = {request_id: text_of(row["body"]) for request_id, row in facts.rows.items()}
    history = history_of(facts.world, {k: v for k, v in texts.items() if v is not None}, facts)
    yield from (f"checker: {violation}" for violation in checker.judge(history))
