"""What can go wrong on the way to the log and back. Raised by every adapter; taken by callers from headrace.bus.ports.

Invariant: a message says what failed and where, never what was in the record.
"""

from headrace.bus.messages import Place


class BusError(Exception):
    """Something between us and the log failed; the message says what, without a payload."""


class BusUnavailableError(BusError):
    """No broker answers; nothing was written by this call."""


class TooFewBrokersError(BusError):
    """A topic wants more copies than there are brokers that take part now: some may still be starting."""


class DeliveryUnknownError(BusError):
    """A write wasn't confirmed in time: it may be in the log or not."""


class TooLargeError(BusError):
    """The message is larger than the topic takes; it was not written."""


class QueueFullError(BusError):
    """The producer's local queue is full: back off, drop nothing. Nothing was queued by this call."""


class PositionGoneError(BusError):
    """The log begins after, or ends before, the position that was asked for. Never skipped in silence."""

    def __init__(self, place: Place, position: int, sentence: str) -> None:
        super().__init__(sentence)
        self.place, self.position = place, position


class FencedError(BusError):
    """Another owner has taken over: stand by and rebuild."""


class CommitFailedError(BusError):
    """A checkpoint failed for another reason: close this state, stand by and rebuild."""
