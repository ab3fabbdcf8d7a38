"""One commit of a transaction, in a thread of its own. Started and asked by KafkaFencedState.

librdkafka's commit with a short timeout can't be polled: only its flush goes on when called again. A timeout while the
coordinator is asked fails the transaction, and one that expires as the answer comes aborts the whole process ("BUG: Invalid
transaction state transition"; tried). So it is given all the time it takes, beside the loop.
"""

import threading

from confluent_kafka import KafkaError, KafkaException, Producer

from headrace.bus.kafka.verdicts import error_in


class Commit:
    """Under way from the moment it exists. Whoever no longer cares lets go of it: it ends with its producer's timeouts."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._error: KafkaError | None = None
        self._ended = threading.Event()
        threading.Thread(target=self._run, name="commit", daemon=True).start()

    def _run(self) -> None:
        try:
            self._producer.commit_transaction()
        except KafkaException as exception:
            self._error = error_in(exception)
        finally:
            self._ended.set()

    def ended(self, within_s: float) -> bool:
        """Whether it has ended; waits so long at most."""
        return self._ended.wait(within_s)

    @property
    def error(self) -> KafkaError | None:
        """Why it failed; None: it didn't. Only once it has ended."""
        return self._error
