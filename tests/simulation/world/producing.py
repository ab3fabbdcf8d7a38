"""The bus's writing ports of one simulated process: LoopProducer, FencedState, and writes with a callback for the rest.

Made by world.clients. Invariant: whatever is written goes over the wire; nothing is known before its confirmation came.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial

from headrace.bus.messages import Message, Place
from headrace.bus.ports import BusError, BusUnavailableError, CommitFailedError, Confirmation, FencedError
from tests.simulation.world.process import Process

_COMMIT = timedelta(seconds=15)


class Writing:
    """A producer whose confirmations are called back: what an asyncio producer is to its tasks."""

    def __init__(self, process: Process, delivery: timedelta) -> None:
        self._process, self._channel = process, process.channel(delivery)

    def send(self, message: Message, told: Callable[[bool], None]) -> None:
        """Write; `told` hears whether it was acknowledged."""
        self._process.step()
        broker, name = self._process.stage.broker, self._process.name
        self._channel.send(
            message.place, partial(broker.append, message, name), lambda offset, _: told(offset is not None)
        )


class SimLoopProducer:
    """As ports.LoopProducer."""

    def __init__(self, process: Process, delivery: timedelta) -> None:
        self._process, self._channel = process, process.channel(delivery)
        self._confirmations: list[Confirmation] = []
        self._closed = False

    def send(self, message: Message, token: object) -> None:
        """As LoopProducer.send."""
        if self._closed:
            raise BusError("this producer is closed")
        self._process.step()

        def confirm(offset: int | None, error: BusError | None) -> None:
            self._confirmations.append(Confirmation(token, message.place, offset, error))

        broker, name = self._process.stage.broker, self._process.name
        self._channel.send(message.place, partial(broker.append, message, name), confirm)

    def confirmations(self) -> list[Confirmation]:
        """As LoopProducer.confirmations."""
        found, self._confirmations = self._confirmations, []
        return found

    def flush(self, timeout: timedelta) -> int:  # noqa: ARG002 - a wait takes no virtual time: what can come comes now
        """As LoopProducer.flush."""
        self._process.step()
        return self._channel.flush()

    def close(self, *, drop: bool = False) -> None:
        """As LoopProducer.close."""
        if not self._closed:
            self._closed = True
            if drop:
                self._channel.cut(0.3)
            else:
                self._channel.flush()


class SimFencedState:
    """As ports.FencedState: one parcel fences, one parcel is a whole transaction."""

    def __init__(self, process: Process, place: Place, transactional_id: str) -> None:
        self._process, self._place, self._id = process, place, transactional_id
        self._broker, self._channel = process.stage.broker, process.channel(_COMMIT)
        self._epoch: int | None = None
        self._asked, self._writing = False, False
        self._failed: BusError | None = None

    def claim(self) -> bool:
        """As FencedState.claim."""
        if not self._asked:
            self._process.step()
            self._asked = True
            self._channel.send(self._place, partial(self._broker.claim, self._id), self._claimed)
        if self._failed is not None:
            raise self._failed
        return self._epoch is not None

    def begin(self, messages: Sequence[Message]) -> None:
        """As FencedState.begin."""
        if self._writing:
            raise BusError("a checkpoint is being written already")
        self._process.step()
        self._writing = True
        self._channel.send(self._place, partial(self._commit, tuple(messages), self._epoch), self._confirmed)

    def committed(self) -> bool:
        """As FencedState.committed."""
        if self._process.waits:
            self._channel.flush()
        if self._failed is not None:
            raise self._failed
        if self._process.waits and self._writing:
            raise CommitFailedError("not committed in time")
        return not self._writing

    def close(self) -> None:
        """As FencedState.close."""
        self._channel.cut(0.5)

    def _claimed(self, epoch: int | None, error: BusError | None) -> None:
        self._epoch, self._failed = epoch, error and BusUnavailableError(str(error))

    def _commit(self, messages: tuple[Message, ...], epoch: int | None) -> int | BusError:
        """At the broker: all of it, or nothing from one that was fenced."""
        if epoch != self._broker.transactional[self._id]:
            return FencedError(f"another owner has claimed the transactional id {self._id}")
        offset = 0
        for message in messages:
            offset = self._broker.append(message, self._process.name)
        self._broker.mark(self._place, self._process.name)
        return offset

    def _confirmed(self, offset: int | None, error: BusError | None) -> None:
        self._writing = False
        if offset is None:
            self._failed = error if isinstance(error, FencedError) else CommitFailedError(str(error))
