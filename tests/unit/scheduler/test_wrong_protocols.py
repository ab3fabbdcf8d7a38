"""Wrong versions of the protocol, each caught by the histories: a judge that never finds anything proves nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from headrace.scheduler.core.checkpointing import Checkpoints
from headrace.scheduler.core.commands import Commands
from headrace.scheduler.core.endings import Endings
from headrace.scheduler.core.worker_log import WorkerLog
from headrace.scheduler.decisions import is_dead
from headrace.scheduler.state.pending import Cancels
from tests.support.scheduler_processes import SimScheduler
from tests.support.scheduler_runs import History

Wrong = Callable[[pytest.MonkeyPatch], None]


def absence_is_believed_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WorkerLog, "_miss", lambda self, held: self._returning.unstarted(held))


def attempt_before_result(patch: pytest.MonkeyPatch) -> None:
    right = Endings._records
    patch.setattr(Endings, "_records", lambda self, *given: right(self, *given)[1:])


def no_fence_on_state(patch: pytest.MonkeyPatch) -> None:
    right = SimScheduler._committed

    def committed(self: SimScheduler) -> bool | None:
        mine, self.epoch = self.epoch, self.world.producer_epoch
        try:
            return right(self)
        finally:
            self.epoch = mine

    patch.setattr(SimScheduler, "_committed", committed)


def no_ping_after_the_unknown(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Commands, "ping", lambda _self: None)


def cancels_forgotten(patch: pytest.MonkeyPatch) -> None:
    right = Checkpoints._position

    def position(self: Checkpoints) -> Any:
        kept, self._state.cancels = self._state.cancels, Cancels()
        try:
            return right(self)
        finally:
            self._state.cancels = kept

    patch.setattr(Checkpoints, "_position", position)


def one_tick_buries(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(is_dead, "TICKS_TO_DEATH", 1)


@pytest.mark.parametrize(
    "wrong",
    [
        absence_is_believed_at_once,
        attempt_before_result,
        no_fence_on_state,
        no_ping_after_the_unknown,
        cancels_forgotten,
        one_tick_buries,
    ],
)
def test_a_wrong_protocol_is_caught(wrong: Wrong, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong(monkeypatch)
    assert any(History(seed).run() for seed in range(150))
