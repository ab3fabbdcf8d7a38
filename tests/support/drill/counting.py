"""Does a run count? Only if its faults met work in every state, and each way of going on was taken. Called by the drill.

Invariant: what this needs is seen in the history, never assumed from the plan; a run that lacks any of it is void.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.support.checker.history import History, Run, Seen
from tests.support.drill.striking import Struck

STATES = ("queued", "dispatched", "running", "finishing")
INSTANTS = ("accepted_ms", "dispatched_ms", "started_ms", "finished_ms", "committed_ms")
"""Between each two a request is in the state of the same place."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What a run had. `met`: for each state, in how many faults a request was in it. `suppressed`: results too many."""

    met: dict[str, int]
    takeovers: int
    reruns: int
    suppressed: int
    restarts: int

    @property
    def lacking(self) -> list[str]:
        """What makes the run void."""
        had = {
            "a takeover": self.takeovers, "a rerun": self.reruns, "a suppressed result": self.suppressed,
            "a restart shown to a reader": self.restarts,
        }  # fmt: skip
        return [
            *(f"a fault that met {state} work" for state in STATES if not self.met[state]),
            *(name for name, count in had.items() if not count),
        ]

    def __str__(self) -> str:
        met = ", ".join(f"{self.met[state]} met {state}" for state in STATES)
        return (
            f"faults: {met}; takeovers {self.takeovers}, reruns {self.reruns}, suppressed {self.suppressed}, "
            f"restarts {self.restarts}"
        )


def counted(history: History, struck: Sequence[Struck]) -> Counted:
    """What the history has."""
    runs = Counter(run.id for run in history.of(Run))
    results = Counter(each.record["id"] for each in history.records("results"))
    epochs = {each.record["epoch"] for each in history.records("state") if each.record["type"] == "ownership"}
    return Counted(
        met=_met(history, struck),
        takeovers=max(epochs, default=1) - 1,  # the log is compacted: earlier owners may be gone from it
        reruns=sum(count - 1 for count in runs.values()),
        suppressed=sum(count - 1 for count in results.values()),
        restarts=sum(each.event == "restart" for each in history.of(Seen)),
    )


def _met(history: History, struck: Sequence[Struck]) -> dict[str, int]:
    lives = [[row.get(name) for name in INSTANTS] for row in history.rows("results") or ()]
    spans: dict[str, list[tuple[int, int]]] = {state: [] for state in STATES}
    for life in lives:
        for state, (begin, end) in zip(STATES, pairwise(life), strict=True):
            if begin is not None and end is not None:
                spans[state].append((begin, end))
    return {
        state: sum(
            any(begin <= blow.mended_ms and end >= blow.began_ms for begin, end in found) for blow in struck
        )
        for state, found in spans.items()
    }
