"""The bus on Apache Kafka: librdkafka (confluent-kafka) for plain loops, aiokafka for asyncio. See KafkaBus.

Called by every service's `__main__`. Nothing outside of this package imports a Kafka client. Building a client doesn't
connect; the first call that needs a broker does. Make clients after a fork, never before: librdkafka isn't fork-safe.
"""

from datetime import timedelta

from headrace.bus.kafka.asking import KafkaTopicIds, KafkaTrims
from headrace.bus.kafka.async_producer import KafkaAsyncProducer
from headrace.bus.kafka.async_reader import KafkaAsyncReader
from headrace.bus.kafka.client_logs import route_client_logs
from headrace.bus.kafka.connection import KafkaConnection
from headrace.bus.kafka.ends import KafkaEnds
from headrace.bus.kafka.group_reader import KafkaGroupReader
from headrace.bus.kafka.loop_producer import KafkaLoopProducer
from headrace.bus.kafka.loop_reader import KafkaLoopReader
from headrace.bus.kafka.rereading import KafkaRereading
from headrace.bus.kafka.state import KafkaFencedState
from headrace.bus.kafka.topics import KafkaTopics
from headrace.bus.messages import Place
from headrace.bus.rereads import RunReader

__all__ = ["KafkaBus", "KafkaConnection"]


class KafkaBus:
    """Makes clients of one cluster. As ports.Bus."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection
        route_client_logs()

    def loop_producer(self, name: str, *, delivery_timeout: timedelta) -> KafkaLoopProducer:
        """As Bus.loop_producer."""
        return KafkaLoopProducer(self._connection, name, delivery_timeout)

    def loop_reader(self, name: str) -> KafkaLoopReader:
        """As Bus.loop_reader."""
        return KafkaLoopReader(self._connection, name)

    def rereads(self, name: str) -> RunReader:
        """As Bus.rereads."""
        return RunReader(lambda: KafkaRereading(self._connection, name))

    def group_reader(self, name: str, group: str) -> KafkaGroupReader:
        """As Bus.group_reader."""
        return KafkaGroupReader(self._connection, name, group)

    def fenced_state(self, name: str, *, place: Place, transactional_id: str) -> KafkaFencedState:
        """As Bus.fenced_state."""
        return KafkaFencedState(self._connection, name, place, transactional_id)

    def ends(self, name: str) -> KafkaEnds:
        """As Bus.ends."""
        return KafkaEnds(self._connection, name)

    def trims(self, name: str) -> KafkaTrims:
        """As Bus.trims."""
        return KafkaTrims(self._connection, name)

    def topic_ids(self, name: str) -> KafkaTopicIds:
        """As Bus.topic_ids."""
        return KafkaTopicIds(self._connection, name)

    def async_producer(
        self, name: str, *, delivery_timeout: timedelta, acks_all: bool = True
    ) -> KafkaAsyncProducer:
        """As Bus.async_producer."""
        return KafkaAsyncProducer(self._connection, name, delivery_timeout, acks_all=acks_all)

    def async_reader(self, name: str) -> KafkaAsyncReader:
        """As Bus.async_reader."""
        return KafkaAsyncReader(self._connection, name)

    def topics(self, name: str) -> KafkaTopics:
        """As Bus.topics."""
        return KafkaTopics(self._connection, name)
