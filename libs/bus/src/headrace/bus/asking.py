"""Questions to the brokers that a plain loop asks without waiting: ask, turn on, look for the answer. Part of bus.ports.

Called by the scheduler's and result-delivery's loops. Invariant: neither `ask` nor `answer` waits; a question that found no
broker raises, and is to be asked again.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from headrace.bus.messages import Place

Answer_co = TypeVar("Answer_co", covariant=True)


class Asked(Protocol[Answer_co]):
    """A question that is under way."""

    def answer(self) -> Answer_co | None:
        """None: not yet. Raises BusUnavailableError: ask again. Raises BusError for what the brokers refuse."""
        ...


class Ends(Protocol):
    """Asks brokers, not caches."""

    def ask(self, places: Sequence[Place]) -> Asked[dict[Place, int]]:
        """For the offset after the last record of each. Non-transactional ends: committed or not."""
        ...

    def close(self) -> None:
        """Stop."""
        ...


class Trims(Protocol):
    """Deletes what lies at the beginning of logs."""

    def ask(self, before: Mapping[Place, int]) -> Asked[dict[Place, int]]:
        """To delete all records below these offsets; the answer is where each log begins now, those that were refused
        left out. What was deleted already is no error.
        """
        ...

    def close(self) -> None:
        """Stop."""
        ...


class TopicIds(Protocol):
    """Asks which topics these are: one that was deleted and made anew has another id."""

    def ask(self, names: Sequence[str]) -> Asked[dict[str, str]]:
        """For the id of each; a name that doesn't exist is left out of the answer."""
        ...

    def close(self) -> None:
        """Stop."""
        ...
