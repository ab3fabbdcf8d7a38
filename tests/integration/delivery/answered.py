"""Answers as workers write them, and what became of them. Used by tests of result-delivery."""

from headrace.bus.messages import Message
from headrace.contracts.codec import decode
from headrace.contracts.topics import TopicKind
from tests.support.delivery import FaultyBus, records_in, rows, topic
from tests.support.results import request_id, result, result_message

RESULTS, REPLIES = topic(TopicKind.RESULTS), topic(TopicKind.REPLIES)
EVENTS, DLQ = topic(TopicKind.EVENTS), topic(TopicKind.DLQ)


def answers(numbers: range, attempt: int = 1, partitions: int = 8) -> list[Message]:
    return [
        result_message(
            RESULTS, result(number, partition=number % partitions, attempt=attempt, body=body), body
        )
        for number in numbers
        for body in [b'{"answer":%d}' % number]
    ]


def ids(numbers: range, partitions: int = 8) -> list[str]:
    return sorted(request_id(number, number % partitions) for number in numbers)


def told(bus: FaultyBus) -> list[str]:
    return [decode(TopicKind.REPLIES, record.header).id for record in records_in(bus, REPLIES)]


def stored(database: str) -> list[str]:
    return sorted(row[0] for row in rows(database, "SELECT id FROM results"))


def outbox_is_empty(database: str) -> bool:
    return rows(database, "SELECT count(*) FROM outbox") == [(0,)]
