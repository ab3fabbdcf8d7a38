"""From settings to a connection with the brokers. Called by the commands that ask or change them."""

from headrace.bus.ports import Bus
from headrace.cli.trouble import part
from headrace.runtime.settings import ServiceSettings


def bus_of(settings: ServiceSettings) -> Bus:
    """The Kafka bus these settings name. Loaded only here: offline commands need no client library."""
    kafka = part("headrace.bus.kafka")
    bus: Bus = kafka.KafkaBus(kafka.KafkaConnection(bootstrap=settings.kafka))
    return bus
