"""Things that are started and stopped, as context managers. Base of all servers in devkit."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Started(ABC):
    """`with Thing(…) as thing:` starts it, and stops it however the block is left."""

    @abstractmethod
    def start(self) -> Self:
        """Returns when it serves; on an error it raises with a sentence and leaves nothing running."""

    @abstractmethod
    def stop(self) -> None:
        """Ends what start() started, and nothing else. Twice is no error."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class Broker(Started):
    """A Kafka broker or cluster, whoever runs it."""

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """Addresses as clients take them: `host:port[,…]`."""
