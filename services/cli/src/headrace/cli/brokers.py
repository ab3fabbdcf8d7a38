"""From settings to a connection with the brokers. Called by the commands that ask or change them."""

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.bus.ports import Bus, BusUnavailableError, Topics
from headrace.cli.trouble import Trouble, part
from headrace.runtime.settings import ServiceSettings

CLIENT = "headrace-topics"


def bus_of(settings: ServiceSettings) -> Bus:
    """The Kafka bus these settings name. Loaded only here: offline commands need no client library."""
    kafka = part("headrace.bus.kafka")
    bus: Bus = kafka.KafkaBus(kafka.KafkaConnection.of(settings))
    return bus


@contextmanager
def administrator(settings: ServiceSettings) -> Iterator[Topics]:
    """The administrator's client, closed afterwards. Raises Trouble when no broker answers."""
    topics = bus_of(settings).topics(CLIENT)
    try:
        yield topics
    except BusUnavailableError as error:
        raise no_broker(settings) from error
    finally:
        topics.close()


def no_broker(settings: ServiceSettings) -> Trouble:
    """What to do when none answers."""
    return Trouble(
        f"no broker answers at {settings.kafka}: start one (`headrace dev kafka` is one for development), "
        "or correct --kafka or HEADRACE_KAFKA"
    )
