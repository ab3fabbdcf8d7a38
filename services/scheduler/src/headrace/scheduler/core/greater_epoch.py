"""Stops an owner of a lesser epoch than one that was seen, where no fence does. Driven by PoolCore.

A greater epoch is a successor's, whose fence will be felt at the next checkpoint; or `state` was lost, which only a person
can mend. Invariant: while one is seen nothing is released and no terminal record is written.
"""

from headrace.scheduler.core.pool_state import PoolState


class GreaterEpoch:
    """`seen`: whether there is one."""

    def __init__(self, state: PoolState) -> None:
        self._state = state
        self._since_ms: int | None = None

    @property
    def seen(self) -> bool:
        """In whatever log."""
        return self._state.greater_epoch is not None

    def turn(self) -> None:
        """Tell of it; stop when a checkpoint is committed all the same."""
        state = self._state
        if not self.seen:
            return
        if self._since_ms is None:
            self._since_ms = state.now.boot_ms
            state.notice(
                "a greater epoch was seen", warning=True, epoch=state.epoch, seen=state.greater_epoch
            )
        elif state.lease_ms > self._since_ms:
            state.out.stop = (
                f"the pool {state.setting.pool} has seen epoch {state.greater_epoch}, but its state topic knows only "
                f"{state.epoch}: the state topic was lost or made anew; bring it back, or remove the pool's other topics too"
            )
