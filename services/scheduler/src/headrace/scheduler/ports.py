"""What the scheduler needs of the bus and of the watchers. Implemented by headrace.bus.kafka and headrace.bus.memory."""

from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

from headrace.bus.messages import Message, Place
from headrace.bus.ports import Ends, FencedState, LoopProducer, LoopReader, Rereads, TopicIds, Trims
from headrace.contracts.observations import QueueState
from headrace.scheduler.core.step import Fleet, Notice, Outputs, Send


class PoolBus(Protocol):
    """Makes the clients of a plain loop."""

    def loop_producer(self, name: str, *, delivery_timeout: timedelta) -> LoopProducer:
        """As Bus.loop_producer."""
        ...

    def loop_reader(self, name: str) -> LoopReader:
        """As Bus.loop_reader."""
        ...

    def rereads(self, name: str) -> Rereads:
        """As Bus.rereads."""
        ...

    def fenced_state(self, name: str, *, place: Place, transactional_id: str) -> FencedState:
        """As Bus.fenced_state."""
        ...

    def ends(self, name: str) -> Ends:
        """As Bus.ends."""
        ...

    def topic_ids(self, name: str) -> TopicIds:
        """As Bus.topic_ids."""
        ...

    def trims(self, name: str) -> Trims:
        """As Bus.trims."""
        ...


class RunTracing(Protocol):
    """Writes down that a request's wait is over."""

    def continued(self, send: Send) -> Message:
        """The message to send, its trace headers continued from here where somebody collects traces."""
        ...


class Standing(StrEnum):
    """What this replica is to a pool. `owner`: past the gate, so that it releases; `stopped`: for good."""

    STANDING_BY = "standing_by"
    TAKING_OVER = "taking_over"
    OWNER = "owner"
    STOPPED = "stopped"


class Watcher(Protocol):
    """Who is told what the pools do: metrics and logs."""

    def stepped(self, pool: str, outputs: Outputs, states: Sequence[QueueState], fleet: Fleet) -> None:
        """One step of an owned pool."""
        ...

    def stands(self, pool: str, standing: Standing) -> None:
        """What this replica is to the pool from now on; told again is no news."""
        ...

    def noticed(self, notice: Notice) -> None:
        """Something for the log."""
        ...

    def took_over(self, pool: str) -> None:
        """A pool is owned from now on."""
        ...
