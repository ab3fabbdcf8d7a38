"""What each record of the three logs holds, by the topic it stands in. Called by the share for each record that is ours.

Invariant: a record holds a result, an attempt, a request, or is refused with a reason and by whom its letter is written.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from headrace.bus.messages import Place, Received
from headrace.contracts.topics import TopicKind, TopicNames
from headrace.contracts.values import Origin
from headrace.result_delivery.decisions.is_it_a_request import accepted_of
from headrace.result_delivery.decisions.is_it_a_result import TerminalRecord, outcome_of
from headrace.result_delivery.decisions.is_it_an_attempt import Attempted, attempted_of
from headrace.result_delivery.decisions.what_to_commit import Found
from headrace.result_delivery.decisions.why_refused import LeftToOwner, Refused


@dataclass(frozen=True, slots=True)
class Judged:
    """A record that was read: where it stood, and what it holds. One that is refused, or may be, is kept as it was, for its
    dead letter.
    """

    place: Place
    offset: int
    found: Found | Refused
    received: Received | None = None

    @property
    def urgent(self) -> bool:
        """Whether somebody waits for its commit. What is only noted and booked may wait for company."""
        return isinstance(self.found, TerminalRecord | Refused)


class Judging:
    """Knows the topics that result-delivery reads."""

    def __init__(self, names: TopicNames, pools: Iterable[str], tiers: Iterable[str]) -> None:
        self._by_topic: dict[str, Callable[[Received], Found | Refused]] = {
            names.of(TopicKind.RESULTS): lambda each: outcome_of(each.partition, each.value, each.headers)
        }
        self.pool_of: dict[str, str] = {}
        """The topics that a pool's owner trims -> that pool."""
        tiers = tuple(tiers)
        for pool in pools:
            requests = {names.of(TopicKind.REQUESTS, pool=pool, tier=tier): tier for tier in tiers}
            attempts = names.of(TopicKind.ATTEMPTS, pool=pool)
            self._by_topic[attempts] = _attempts(pool, names)
            self._by_topic |= {topic: _requests(pool, tier) for topic, tier in requests.items()}
            self.pool_of |= dict.fromkeys([attempts, *requests], pool)

    @property
    def topics(self) -> list[str]:
        """All of them."""
        return list(self._by_topic)

    def judge(self, record: Received) -> Judged:
        """What this record holds."""
        found = self._by_topic[record.topic](record)
        if isinstance(found, Refused) and record.topic in self.pool_of:
            found = LeftToOwner(found.reason)
        kept = record if isinstance(found, Refused | Attempted) else None
        return Judged(record.place, record.offset, found, kept)


def _attempts(pool: str, names: TopicNames) -> Callable[[Received], Found | Refused]:
    return lambda each: attempted_of(each.partition, each.value, each.headers, pool=pool, names=names)


def _requests(pool: str, tier: str) -> Callable[[Received], Found | Refused]:
    def judge(each: Received) -> Found | Refused:
        origin = Origin(each.topic, each.partition, each.offset)
        return accepted_of(origin, each.value, each.headers, pool=pool, tier=tier)

    return judge
