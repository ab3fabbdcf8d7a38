"""What an error of librdkafka means for whoever got it: one table. Called by every confluent-kafka adapter.

Invariant: an error that isn't in the table is taken for "may have been written" and for "try again". So is a purge of the
queue: what was sent once and waits there to be sent again may be in the log.
"""

from enum import Enum

from confluent_kafka import KafkaError, KafkaException

from headrace.bus.ports import (
    BusError,
    BusUnavailableError,
    DeliveryUnknownError,
    TooFewBrokersError,
    TooLargeError,
)


class ErrorVerdict(Enum):
    """What to do about an error."""

    RETRY = "try again: the cluster or the way to it is in trouble"
    RECREATE = "this client is of no more use: make a new one"
    FENCED = "another producer has taken over"
    REFUSED = "nothing was written, and trying again doesn't help"


_FENCED = {
    KafkaError._FENCED,  # noqa: SLF001 - librdkafka's own errors are public constants with a leading underscore
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
}
_RECREATE = {
    KafkaError._FATAL,  # noqa: SLF001
    KafkaError._STATE,  # noqa: SLF001
    KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
    KafkaError.UNKNOWN_PRODUCER_ID,
    KafkaError.INVALID_TXN_STATE,
}
_REFUSED = {
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    KafkaError._INVALID_ARG,  # noqa: SLF001
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.INVALID_RECORD,
    KafkaError.INVALID_CONFIG,
    KafkaError.INVALID_PARTITIONS,
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError.POLICY_VIOLATION,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
_STALE = {
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_TOPIC_ID,
}
TOO_LARGE = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}


def error_in(exception: KafkaException) -> KafkaError:
    """The error that confluent-kafka's exception carries."""
    error = exception.args[0]
    return error if isinstance(error, KafkaError) else KafkaError(KafkaError._FAIL, str(exception))  # noqa: SLF001


def verdict_of(error: KafkaError) -> ErrorVerdict:
    """What to do about it."""
    if error.code() in _FENCED:
        return ErrorVerdict.FENCED
    if error.fatal() or error.code() in _RECREATE:
        return ErrorVerdict.RECREATE
    return ErrorVerdict.REFUSED if error.code() in _REFUSED else ErrorVerdict.RETRY


def send_error(error: KafkaError, where: str) -> BusError:
    """What became of a message that wasn't confirmed."""
    if error.code() in TOO_LARGE:
        return TooLargeError(f"a message is larger than {where} takes")
    if verdict_of(error) is ErrorVerdict.REFUSED:
        return BusError(f"nothing was written to {where}: {error.str()}")
    return DeliveryUnknownError(f"a write to {where} wasn't confirmed: {error.str()}")


def call_error(error: KafkaError, what: str) -> BusError:
    """What a call that only asks, or that may be repeated, raises."""
    if error.code() == KafkaError.INVALID_REPLICATION_FACTOR:
        return TooFewBrokersError(f"{what}: {error.str()}")
    if verdict_of(error) is ErrorVerdict.REFUSED:
        return BusError(f"{what}: {error.str()}")
    return BusUnavailableError(f"{what}: no broker answers ({error.str()})")


def existing_error(error: KafkaError, what: str) -> BusError:
    """As call_error, about partitions that are known to exist: a client or a broker that doesn't know them is behind."""
    if error.code() in _STALE:
        return BusUnavailableError(f"{what}: {error.str()}, though it is there")
    return call_error(error, what)
