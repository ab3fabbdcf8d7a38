"""The deaths of late, who is suspected of them, and which worker is set apart for their trials. Used by the core.

Invariant: `groups` and `group_of` say the same, and what the `retrying` records say; `deaths` is checkpointed too.
"""

from dataclasses import dataclass, field
from datetime import timedelta

from headrace.contracts.deaths import Death
from headrace.scheduler.decisions.who_runs_alone import LONGEST_TURN

MOST_DEATHS = 500


@dataclass(slots=True)
class Apart:
    """The worker that is set apart: only suspects run there. Instants in ms since boot."""

    boot: str
    since_ms: int
    trials: int = 0


@dataclass(slots=True)
class Suspects:
    """`did_well`: workers by name that ended something well since they or their engine last died; not checkpointed."""

    deaths: dict[str, Death] = field(default_factory=dict)
    groups: dict[str, dict[str, None]] = field(default_factory=dict)
    group_of: dict[str, str] = field(default_factory=dict)
    did_well: set[str] = field(default_factory=set)
    apart: Apart | None = None
    rest_until_ms: int = 0
    longest_turn: timedelta = LONGEST_TURN

    def join(self, request_id: str, group: str) -> None:
        """It runs only with this group from now on."""
        self.leave(request_id)
        self.groups.setdefault(group, {})[request_id] = None
        self.group_of[request_id] = group

    def leave(self, request_id: str) -> None:
        """It has ended, or may run like any other."""
        group = self.group_of.pop(request_id, None)
        if group is not None:
            del self.groups[group][request_id]
            if not self.groups[group]:
                del self.groups[group]

    def forget_before(self, wall_ms: int) -> list[str]:
        """Drop the deaths before that instant, and the oldest of too many; their keys."""
        extra = len(self.deaths) - MOST_DEATHS
        gone = [
            key
            for number, (key, death) in enumerate(self.deaths.items())
            if death.at_ms < wall_ms or number < extra
        ]
        for key in gone:
            del self.deaths[key]
        return gone

    def begun_ms(self, group: str) -> int:
        """When (Unix ms) the death happened that the group is named after; 0 when it is forgotten."""
        death = self.deaths.get(group.partition("/")[0])
        return 0 if death is None else death.at_ms
