"""Wrong versions of what a checkpoint keeps for the next owner. Listed by mutants.every."""

from typing import Any

from headrace.scheduler.core.attempt_log import AttemptLog
from headrace.scheduler.core.checkpointing import Checkpoints
from headrace.scheduler.state.pending import Cancels
from tests.simulation.mutants.mutant import Mutant, Patches


def cancels_are_passed(patches: Patches) -> None:
    right = Checkpoints._position

    def position(self: Checkpoints) -> Any:
        kept, self._state.cancels = self._state.cancels, Cancels()
        try:
            return right(self)
        finally:
            self._state.cancels = kept

    patches.set(Checkpoints, "_position", position)


def finished_ids_are_not_checkpointed(patches: Patches) -> None:
    right = Checkpoints._of_key

    def of_key(self: Checkpoints, key: str) -> Any:
        return self._forgotten(key) if key.startswith("recent/") else right(self, key)

    patches.set(Checkpoints, "_of_key", of_key)


def retries_are_not_checkpointed(patches: Patches) -> None:
    right = Checkpoints._of_key

    def of_key(self: Checkpoints, key: str) -> Any:
        return self._forgotten(key) if key.startswith("retrying/") else right(self, key)

    patches.set(Checkpoints, "_of_key", of_key)


def what_is_finished_beyond_the_prefix_is_lost(patches: Patches) -> None:
    from headrace.scheduler.state.offsets import FinishedOffsets  # noqa: PLC0415 - beside its use

    patches.set(FinishedOffsets, "bitmaps", lambda _self: {})


def positions_run_ahead(patches: Patches) -> None:
    """What is in the log of attempts is taken as read before it was."""
    right = AttemptLog.read

    def read(self: AttemptLog, received: Any) -> None:
        right(self, received)
        self._state.attempts_read[received.partition] += 1

    patches.set(AttemptLog, "read", read)


KEPT = (
    Mutant(
        "cancels forgotten",
        "no checkpoint passes a pending cancel",
        cancels_are_passed,
        "a_cancel_is_pending_at_a_checkpoint",
    ),
    Mutant(
        "finished ids not kept",
        "finished ids outlive an owner",
        finished_ids_are_not_checkpointed,
        "an_id_is_written_again_after_a_takeover",
    ),
    Mutant(
        "retries not kept",
        "used attempts outlive an owner",
        retries_are_not_checkpointed,
        "a_request_fails_again_and_again_over_owners",
    ),
    Mutant(
        "no bitmaps",
        "what is finished beyond the prefix is kept",
        what_is_finished_beyond_the_prefix_is_lost,
        "a_head_is_stuck_for_longer_than_ids_are_kept",
    ),
    Mutant("position runs ahead", "a position passes only what was read", positions_run_ahead, 0),
)
