"""The admin names of confluent-kafka, re-exported in one place. Called by ends and topics."""

# confluent-kafka imports these into confluent_kafka.admin without saying that they are part of it.
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ListOffsetsResultInfo,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)

__all__ = [
    "AlterConfigOpType",
    "ConfigEntry",
    "ConfigResource",
    "ListOffsetsResultInfo",
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",
    "ResourceType",
    "TopicDescription",
]
