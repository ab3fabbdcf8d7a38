"""One request of a simulated run, and what came of it. Made by scenario, filled in by the world, read by figures.

Invariant: what a request will really cost is seen by the backend alone; a contender learns it when the request has ended.
"""

from dataclasses import dataclass
from enum import StrEnum


class Fate(StrEnum):
    """What came of a request. A closed set."""

    UNDER_WAY = "under way"
    FINISHED = "finished"
    DROPPED = "dropped"
    CANCELLED = "cancelled"


@dataclass(slots=True, eq=False)
class Job:
    """A request. All times are milliseconds since the run began; `deadline_ms` None: whenever it can be. `plain`: its answer
    is text alone, so that it is gone on with where it was put back. `user`: its fairness key; `priority`: among its user's.

    `sent_ms`: when it went to a backend the last time, to go on behind `said` tokens of its answer; `started_ms`: when it
    first had a slot there; `kept_ms`: the same since it was put back the last time, if it was. Of its slots before that
    `gained_ms` went into what it goes on from; the last lasted `stopped_ms` and ended with `stopped_at` tokens. `blocks`: of
    its prompt, as in the trace; where there are any, its backend sets `cached_tokens` when it begins.
    """

    number: int
    at_ms: int
    tenant: str
    tier: str
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    deadline_ms: int | None = None
    plain: bool = True
    user: str | None = None
    priority: int = 0
    fate: Fate = Fate.UNDER_WAY
    sent_ms: int | None = None
    started_ms: int | None = None
    kept_ms: int | None = None
    ended_ms: int | None = None
    said: int = 0
    gained_ms: int = 0
    stopped_ms: int = 0
    stopped_at: int = 0
    blocks: tuple[int, ...] = ()

    @property
    def on_time(self) -> bool:
        """Whether it has finished, by its deadline if it has one."""
        late = self.deadline_ms is not None and self.ended_ms is not None and self.ended_ms > self.deadline_ms
        return self.fate is Fate.FINISHED and not late
