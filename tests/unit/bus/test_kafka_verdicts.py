"""The table of librdkafka's errors: each class is known, and the unknown is taken for the worse."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.bus.kafka.verdicts import (
    ErrorVerdict,
    call_error,
    error_in,
    existing_error,
    send_error,
    verdict_of,
)
from headrace.bus.ports import BusError, BusUnavailableError, DeliveryUnknownError, TooLargeError


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (KafkaError(KafkaError._FENCED, fatal=True), ErrorVerdict.FENCED),
        (KafkaError(KafkaError.INVALID_PRODUCER_EPOCH), ErrorVerdict.FENCED),
        (KafkaError(KafkaError.PRODUCER_FENCED), ErrorVerdict.FENCED),
        (KafkaError(KafkaError._FATAL), ErrorVerdict.RECREATE),
        (KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER), ErrorVerdict.RECREATE),
        (KafkaError(KafkaError.INVALID_PRODUCER_ID_MAPPING), ErrorVerdict.RECREATE),
        (KafkaError(KafkaError.INVALID_TXN_STATE), ErrorVerdict.RECREATE),
        (KafkaError(KafkaError.UNKNOWN, fatal=True), ErrorVerdict.RECREATE),
        (KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), ErrorVerdict.REFUSED),
        (KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), ErrorVerdict.REFUSED),
        (KafkaError(KafkaError._TRANSPORT), ErrorVerdict.RETRY),
        (KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION), ErrorVerdict.RETRY),
        (KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS), ErrorVerdict.RETRY),
        (KafkaError(KafkaError.UNKNOWN), ErrorVerdict.RETRY),
    ],
)
def test_each_class_of_error_has_its_verdict(error: KafkaError, verdict: ErrorVerdict) -> None:
    assert verdict_of(error) is verdict


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (KafkaError.MSG_SIZE_TOO_LARGE, TooLargeError),
        (KafkaError._MSG_TIMED_OUT, DeliveryUnknownError),
        (KafkaError._PURGE_INFLIGHT, DeliveryUnknownError),
        (KafkaError._PURGE_QUEUE, DeliveryUnknownError),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, BusError),
        (KafkaError.UNKNOWN, DeliveryUnknownError),
    ],
)
def test_a_send_that_may_be_in_the_log_is_unknown(code: int, expected: type[BusError]) -> None:
    assert type(send_error(KafkaError(code), "t/0")) is expected


def test_a_call_that_may_be_repeated_says_whether_it_should_be() -> None:
    assert type(call_error(KafkaError(KafkaError._TIMED_OUT), "asking")) is BusUnavailableError
    assert type(call_error(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), "asking")) is BusError
    assert error_in(KafkaException("odd")).code() == KafkaError._FAIL


@pytest.mark.parametrize("code", [KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART])
def test_who_does_not_know_a_partition_that_is_there_is_asked_again(code: int) -> None:
    assert type(existing_error(KafkaError(code), "asking")) is BusUnavailableError
    assert type(existing_error(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), "asking")) is BusError
