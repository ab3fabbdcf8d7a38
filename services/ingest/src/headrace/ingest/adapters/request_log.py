"""Writes requests and cancellations into Kafka. Called by the service; fulfils ports.RequestLog.

Invariant: it returns only after the acknowledgement of all in-sync replicas, and every record names its partition.
"""

from headrace.bus.messages import Headers, Message, Place, message_of
from headrace.bus.ports import AsyncProducer, BusError, DeliveryUnknownError, TooLargeError
from headrace.contracts.control import CancelRequest
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind, TopicNames
from headrace.ingest.ports import DoesNotFitError, NotWrittenError, OutcomeUnknownError
from headrace.runtime.clock import Clock


class KafkaRequestLog:
    """`requests.{pool}.{tier}` and `control.{pool}`, over one producer."""

    def __init__(self, producer: AsyncProducer, names: TopicNames, clock: Clock) -> None:
        self._producer, self._names, self._clock = producer, names, clock

    async def accept(self, record: RequestRecord, value: bytes, trace: Headers) -> None:
        """Writes a request. Raises OutcomeUnknownError, NotWrittenError, DoesNotFitError."""
        topic = self._names.of(TopicKind.REQUESTS, pool=record.pool, tier=record.tier)
        place = Place(topic, record.partition)
        await self._send(message_of(place, record, value, key=record.tenant.encode(), trace=trace))

    async def cancel(self, request_id: str, *, tenant: str, pool: str, hop: int = 0) -> None:
        """Writes a cancellation. Raises OutcomeUnknownError, NotWrittenError."""
        wanted = CancelRequest(id=request_id, tenant=tenant, at_ms=self._clock.now().wall_ms, hop=hop)
        await self._send(message_of(Place(self._names.of(TopicKind.CONTROL, pool=pool), 0), wanted))

    async def _send(self, message: Message) -> None:
        try:
            await self._producer.send(message)
        except TooLargeError as error:
            raise DoesNotFitError(str(error)) from error
        except DeliveryUnknownError as error:
            raise OutcomeUnknownError(str(error)) from error
        except BusError as error:
            raise NotWrittenError(str(error)) from error
