"""Sends what the Kafka clients say to the logger `headrace.bus`, at debug level. Called by KafkaBus and connection.

The clients call a broker's restart an error, many times a second; what matters of it reaches callers as exceptions.
"""

import logging

LOGGER = "headrace.bus"


class QuietLog:
    """What confluent-kafka takes for a logger."""

    def log(self, level: int, text: str, *values: object) -> None:  # noqa: ARG002 - librdkafka's own level
        """One line of librdkafka's."""
        logging.getLogger(LOGGER).debug(text, *values)


class _Forward(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        logging.getLogger(LOGGER).debug(record.getMessage())


def route_client_logs() -> None:
    """Take aiokafka's loggers over; twice is the same as once."""
    theirs = logging.getLogger("aiokafka")
    if not any(isinstance(handler, _Forward) for handler in theirs.handlers):
        theirs.addHandler(_Forward())
        theirs.propagate = False
