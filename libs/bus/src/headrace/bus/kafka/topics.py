"""Topics on librdkafka's admin client. Made by KafkaBus; called by `headrace topics`, start-up checks and trimming."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from time import monotonic, sleep
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from headrace.bus.kafka.admin_client import RenewedAdminClient
from headrace.bus.kafka.admin_types import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
    TopicDescription,
)
from headrace.bus.kafka.connection import ANSWER_WITHIN, KafkaConnection
from headrace.bus.kafka.verdicts import error_in
from headrace.bus.ports import BusError, BusUnavailableError, FoundTopic
from headrace.contracts.topics import Topic

_WAIT_S = ANSWER_WITHIN.total_seconds()
_VISIBLE_WITHIN_S = 10.0
_LOOK_AGAIN_S = 0.02


class KafkaTopics:
    """As ports.Topics."""

    def __init__(self, connection: KafkaConnection, name: str) -> None:
        self._admin = RenewedAdminClient(connection, name)

    def describe(self, names: Sequence[str]) -> dict[str, FoundTopic]:
        """As Topics.describe."""
        existing = self._existing(names)
        if not existing:
            return {}
        descriptions = self._admin.wait(
            lambda client: client.describe_topics(TopicCollection(existing), request_timeout=_WAIT_S),
            "describing topics failed",
        )
        configs = self._configs(existing)
        return {
            name: _found(description, configs[name])
            for name, description in descriptions.items()
            if isinstance(description, TopicDescription)
        }

    def _existing(self, names: Sequence[str]) -> list[str]:
        client = self._admin.current()
        try:
            topics = client.list_topics(timeout=_WAIT_S).topics
        except KafkaException as exception:
            raise self._admin.failure(client, exception, "asking for the topics failed") from exception
        return [name for name in dict.fromkeys(names) if name in topics and topics[name].error is None]

    def _configs(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        answers = self._admin.wait(
            lambda client: client.describe_configs(resources, request_timeout=_WAIT_S),
            "describing the settings of topics failed",
        )
        return {
            resource.name: {}
            if isinstance(entries, BusError)
            else {key: str(entry.value) for key, entry in entries.items()}
            for resource, entries in answers.items()
        }

    def create(self, topics: Sequence[Topic]) -> None:
        """As Topics.create. Returns when the brokers show them. Raises BusError when one is refused."""
        if not topics:
            return
        new = [
            NewTopic(
                topic.name,
                num_partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                config=topic.configs(),
            )
            for topic in topics
        ]
        self._create(new)
        names = [topic.name for topic in topics]
        self._await_shown(lambda: len(self._existing(names)) == len(names))

    def _create(self, new: list[NewTopic]) -> None:
        client = self._admin.current()
        for name, future in client.create_topics(
            new, request_timeout=_WAIT_S, operation_timeout=_WAIT_S
        ).items():
            try:
                future.result(_WAIT_S + 1)
            except KafkaException as exception:
                if error_in(exception).code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise self._admin.failure(client, exception, f"creating {name} failed") from exception

    def _await_shown(self, shown: Callable[[], bool]) -> None:
        # The controller has decided; brokers follow a little later.
        deadline = monotonic() + _VISIBLE_WITHIN_S
        while not shown():
            if monotonic() > deadline:
                raise BusUnavailableError("topics were changed, but the brokers don't show it yet")
            sleep(_LOOK_AGAIN_S)

    def add_partitions(self, name: str, total: int) -> None:
        """As Topics.add_partitions. Raises BusError when it has as many already."""
        self._do(
            lambda client: client.create_partitions(
                [NewPartitions(name, total)], request_timeout=_WAIT_S, operation_timeout=_WAIT_S
            ),
            f"growing {name} failed",
        )
        self._await_shown(lambda: self.describe([name])[name].partitions == total)

    def set_configs(self, name: str, configs: Mapping[str, str]) -> None:
        """As Topics.set_configs."""
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in configs.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        self._do(
            lambda client: client.incremental_alter_configs([resource], request_timeout=_WAIT_S),
            f"changing the settings of {name} failed",
        )
        self._await_shown(lambda: self._configs([name])[name].items() >= dict(configs).items())

    def _do(self, ask: Callable[[AdminClient], Mapping[Any, Future[Any]]], what: str) -> None:
        for answer in self._admin.wait(ask, what).values():
            if isinstance(answer, BusError):
                raise answer

    def close(self) -> None:
        """As Topics.close."""
        self._admin.close()


def _found(description: TopicDescription, configs: dict[str, str]) -> FoundTopic:
    partitions = description.partitions
    return FoundTopic(
        description.name,
        str(description.topic_id),
        len(partitions),
        min((len(one.replicas) for one in partitions), default=0),
        configs,
    )
