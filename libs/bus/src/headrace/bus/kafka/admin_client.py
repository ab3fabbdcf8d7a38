"""librdkafka's admin client, replaced whenever it was refused. Called by KafkaEnds and KafkaTopics.

After a broker's restart an admin client keeps stale leader epochs and is refused for ever; a new one isn't (tried).
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from headrace.bus.kafka.connection import ANSWER_WITHIN, KafkaConnection
from headrace.bus.kafka.verdicts import ErrorVerdict, call_error, error_in, verdict_of
from headrace.bus.ports import BusError, BusUnavailableError

K = TypeVar("K")
V = TypeVar("V")


class RenewedAdminClient:
    """Holds the client in use."""

    def __init__(self, connection: KafkaConnection, name: str) -> None:
        self._settings = connection.librdkafka(name)
        self._client: AdminClient | None = None

    def current(self) -> AdminClient:
        """The client to ask now."""
        if self._client is None:
            settings = dict(self._settings)
            self._client = AdminClient(settings, logger=settings.pop("logger"))
        return self._client

    def renew(self, refused: AdminClient) -> None:
        """Use another one from now on; when `refused` is no longer in use, nothing happens."""
        if self._client is refused:
            self._client = None

    def failure(self, client: AdminClient, exception: BaseException, what: str) -> BusError:
        """What to raise; the client is replaced unless the fault is the question's. Raises what isn't Kafka's word.

        Hand it what `Future.exception` gives, never what `Future.result` has raised: that would know its frames, those the
        future, and the future it, so that only the garbage collector would end the client.
        """
        if not isinstance(exception, KafkaException):
            raise exception
        error = error_in(exception)
        if verdict_of(error) is not ErrorVerdict.REFUSED:
            self.renew(client)
        return call_error(error, what)

    def wait(self, ask: Callable[[AdminClient], Mapping[K, Future[V]]], what: str) -> dict[K, V | BusError]:
        """All answers, an error in place of what was refused. Raises BusUnavailableError when two clients got none."""
        for last in (False, True):
            client = self.current()
            try:
                return {key: self._one(client, future, what) for key, future in ask(client).items()}
            except BusUnavailableError:
                if last:
                    raise
        raise AssertionError("the last try returns or raises")

    def _one(self, client: AdminClient, future: Future[Any], what: str) -> Any | BusError:  # noqa: ANN401
        try:
            exception = future.exception(ANSWER_WITHIN.total_seconds() + 1)
        except FutureTimeoutError:
            self.renew(client)
            raise BusUnavailableError(f"{what}: no answer in time") from None
        if exception is None:
            return future.result()
        error = self.failure(client, exception, what)
        if not isinstance(error, BusUnavailableError):
            return error
        try:
            raise error
        finally:
            del error  # as said at `failure`

    def close(self) -> None:
        """Let go of the client."""
        self._client = None
