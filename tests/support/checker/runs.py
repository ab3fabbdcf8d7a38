"""Rules about work: nothing runs again without a reason, nothing starts long after its cancel. Called by judging.

Invariant: a reason is of the earlier run itself and stands before the later one began: its attempt failed, or its worker's
boot died. The death or change of a scheduler is none.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.support.checker.history import AttemptKey, CancelAsked, Death, Failed, History, Run

CANCEL_WITHIN_MS = 20_000
"""A cancel that is kept waits for a takeover at most, and that one for its own failed tries."""


def run_again(history: History) -> Iterator[str]:
    """A request ran twice and the first run had neither failed nor lost its worker; or one attempt ran twice."""
    runs: defaultdict[str, list[Run]] = defaultdict(list)
    for run in history.of(Run):
        runs[run.id].append(run)
    failed, deaths = _failures(history), history.of(Death)
    for request, mine in runs.items():
        for earlier, later in pairwise(sorted(mine, key=lambda run: (run.hop, run.attempt))):
            if (earlier.hop, earlier.attempt) == (later.hop, later.attempt):
                yield f"{request}: attempt {earlier.attempt} ran twice"
            elif not _has_reason(earlier, later, failed, deaths):
                yield f"{request}: {earlier.attempt} neither failed nor lost {earlier.worker}, and {later.attempt} ran"


def _failures(history: History) -> dict[tuple[str, AttemptKey], int | None]:
    """When each failed attempt had failed, as the log of attempts and the history's own notes tell it."""
    found: dict[tuple[str, AttemptKey], int | None] = {}
    for each in history.records("attempts"):
        if each.record["verdict"] in {"retry_at", "dead"}:
            epoch, sequence = each.record["attempt"]
            found.setdefault((each.record["id"], (epoch, sequence)), each.at_ms)
    for failed in history.of(Failed):
        found.setdefault((failed.id, failed.attempt), failed.at_ms)
    return found


def _has_reason(
    earlier: Run, later: Run, failed: dict[tuple[str, AttemptKey], int | None], deaths: list[Death]
) -> bool:
    key = (earlier.id, earlier.attempt)
    if key in failed and _not_after(failed[key], later.start_ms):
        return True
    return any(_took(death, earlier) and _not_after(death.at_ms, later.start_ms) for death in deaths)


def _took(death: Death, run: Run) -> bool:
    if death.boot is not None and run.boot is not None:
        return death.boot == run.boot
    return death.worker == run.worker and _not_after(run.start_ms, death.at_ms)


def _not_after(before_ms: int | None, after_ms: int | None) -> bool:
    return before_ms is None or after_ms is None or before_ms <= after_ms


def late_cancel(history: History, within_ms: int = CANCEL_WITHIN_MS) -> Iterator[str]:
    """A run began long after its caller had been told that the cancel is kept."""
    kept: dict[str, int] = {}
    for each in history.of(CancelAsked):
        if each.kept and each.at_ms is not None:
            kept.setdefault(each.id, each.at_ms)
    for run in history.of(Run):
        if run.id in kept and run.start_ms is not None and run.start_ms > kept[run.id] + within_ms:
            late_s = (run.start_ms - kept[run.id]) / 1000
            yield f"{run.id}: attempt {run.attempt} began {late_s:.1f} s after its cancel"
