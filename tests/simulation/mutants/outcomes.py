"""Wrong versions of how a worker tells what became of an attempt. Listed by mutants.every."""

from dataclasses import replace
from typing import Any

from headrace.inference_worker.protocol.holdings import Holdings, Stage
from tests.simulation.mutants.mutant import Mutant, Patches


def the_attempt_is_written_first(patches: Patches) -> None:
    def end(self: Holdings, holding: Any, outcome: Any, now: Any) -> None:
        right(self, holding, outcome, now)
        holding.stage = Stage.ATTEMPT

    def written(self: Holdings, token: Any, write: Any, now: Any) -> None:
        holding = self._held.get(token.attempt)
        was = holding is not None and holding.stage is Stage.ATTEMPT and token.stage is Stage.ATTEMPT
        if was and holding is not None and write.acknowledged and holding.result is not None:
            holding.stage, holding.send_at = Stage.RESULT, now.boot_ms
        elif holding is not None and holding.stage is Stage.RESULT and write.acknowledged:
            del self._held[token.attempt]
        else:
            wrote(self, token, write, now)

    right, wrote = Holdings.end, Holdings.written
    patches.set(Holdings, "end", end)
    patches.set(Holdings, "written", written)


def the_unacknowledged_is_dropped(patches: Patches) -> None:
    right = Holdings.written

    def written(self: Holdings, token: Any, write: Any, now: Any) -> None:
        right(self, token, replace(write, acknowledged=True), now)

    patches.set(Holdings, "written", written)


def the_outcome_is_not_awaited(patches: Patches) -> None:
    """An attempt is dropped from reports as soon as its record is sent."""
    right = Holdings.report

    def report(self: Holdings) -> Any:
        ended = {h.attempt for h in self._held.values() if h.stage is Stage.ATTEMPT}
        return tuple(held for held in right(self) if held.attempt not in ended)

    patches.set(Holdings, "report", report)


OUTCOMES = (
    Mutant(
        "completion before result",
        "result first, then attempt",
        the_attempt_is_written_first,
        "a_worker_dies_between_its_two_records",
    ),
    Mutant(
        "unacknowledged is dropped",
        "outcomes are sent until acknowledged",
        the_unacknowledged_is_dropped,
        "a_result_is_lost_on_its_way",
    ),
    Mutant(
        "outcome not awaited",
        "an attempt is reported until its record is acknowledged",
        the_outcome_is_not_awaited,
        "outcomes_take_longer_than_reports",
    ),
)
