"""Trims and TopicIds on librdkafka's admin client: futures that are looked at, never waited for. Made by KafkaBus."""

import ctypes
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from headrace.bus.kafka.admin_client import RenewedAdminClient
from headrace.bus.kafka.connection import ANSWER_WITHIN, KafkaConnection
from headrace.bus.kafka.narrowing import at
from headrace.bus.kafka.verdicts import error_in
from headrace.bus.messages import Place

K = TypeVar("K")
V = TypeVar("V")

_WAIT_S = ANSWER_WITHIN.total_seconds()
_OWN_REFERENCES = 3
"""The description's, the variable's and the argument's."""
_GONE = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.OFFSET_OUT_OF_RANGE})


class KafkaAsked(Generic[K, V]):
    """As ports.Asked, of one future for each thing that was asked about. `pick` takes what is wanted of each answer, and
    raises BusError where that isn't there. `left_out`: codes of errors by which a thing is left out of the answer.
    """

    def __init__(
        self,
        admin: RenewedAdminClient,
        ask: Callable[[AdminClient], Mapping[K, Future[Any]]],
        pick: Callable[[Any], V],
        what: str,
        *,
        left_out: frozenset[int] = _GONE,
    ) -> None:
        self._admin, self._client, self._pick, self._what = admin, admin.current(), pick, what
        self._left_out = left_out
        self._futures = ask(self._client)

    def answer(self) -> dict[K, V] | None:
        """As Asked.answer; what doesn't exist, or not any more, is left out."""
        if not all(future.done() for future in self._futures.values()):
            return None
        found: dict[K, V] = {}
        for key, future in self._futures.items():
            exception = future.exception()
            if exception is None:
                found[key] = self._pick(future.result())
            elif not self._is_left_out(exception):
                raise self._admin.failure(self._client, exception, self._what)
        return found

    def _is_left_out(self, exception: BaseException) -> bool:
        return isinstance(exception, KafkaException) and error_in(exception).code() in self._left_out


class KafkaTrims:
    """As ports.Trims."""

    def __init__(self, connection: KafkaConnection, name: str) -> None:
        self._admin = RenewedAdminClient(connection, name)

    def ask(self, before: Mapping[Place, int]) -> KafkaAsked[Place, int]:
        """As Trims.ask."""

        def ask(client: AdminClient) -> dict[Place, Future[Any]]:
            partitions = [at(place, offset) for place, offset in before.items()]
            futures = client.delete_records(partitions, request_timeout=_WAIT_S) if partitions else {}
            return {Place(one.topic, one.partition): future for one, future in futures.items()}

        return KafkaAsked(self._admin, ask, lambda answer: int(answer.low_watermark), "trimming failed")

    def close(self) -> None:
        """As Trims.close."""
        self._admin.close()


class KafkaTopicIds:
    """As ports.TopicIds."""

    def __init__(self, connection: KafkaConnection, name: str) -> None:
        self._admin = RenewedAdminClient(connection, name)

    def ask(self, names: Sequence[str]) -> KafkaAsked[str, str]:
        """As TopicIds.ask."""

        def ask(client: AdminClient) -> Mapping[str, Future[Any]]:
            if not names:
                return {}
            return client.describe_topics(TopicCollection(list(names)), request_timeout=_WAIT_S)

        return KafkaAsked(self._admin, ask, _topic_id, "asking for topics failed")

    def close(self) -> None:
        """As TopicIds.close."""
        self._admin.close()


def _topic_id(description: Any) -> str:  # noqa: ANN401 - the client's stubs don't say
    """As text. The client (2.16.1, TopicDescription in its C code) forgets to give back a reference to each id that it hands
    out, so that none is ever freed: 60 MB a day for an owner that looks every two seconds. Given back here; a client that
    does it by itself leaves no reference too many.
    """
    found = description.topic_id
    text = str(found)
    if sys.getrefcount(found) > _OWN_REFERENCES:
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(found))
    return text
