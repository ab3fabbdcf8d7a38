"""result-delivery as a process that is killed (SIGKILL, by itself) at the moment it would hand a message to a topic.

Run by tests as `python -m tests.support.dying_delivery TOPIC`. The crash point is a port of the bus: the service's own code
is what it is, and stands exactly between its SQL commit and its send.
"""

import os
import signal
import sys
from datetime import timedelta

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.bus.kafka.loop_producer import KafkaLoopProducer
from headrace.bus.messages import Message
from headrace.result_delivery.settings import DeliverySettings
from headrace.result_delivery.wiring import DeliveryLoop
from headrace.runtime.process import load_policy_or_exit, run_plain_loop
from headrace.runtime.settings_loading import load_or_exit
from headrace.runtime.telemetry import Telemetry
from tests.support.entry import parser_of


class DyingProducer(KafkaLoopProducer):
    """Dies before it sends to `dies_at`."""

    dies_at = ""

    def send(self, message: Message, token: object) -> None:
        if message.topic == self.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        super().send(message, token)


class DyingBus(KafkaBus):
    """The bus with that producer."""

    def __init__(self, connection: KafkaConnection) -> None:
        super().__init__(connection)
        self._to = connection

    def loop_producer(self, name: str, *, delivery_timeout: timedelta) -> KafkaLoopProducer:
        return DyingProducer(self._to, name, delivery_timeout)


def main(dies_at: str) -> int:
    """The process, until it dies."""
    DyingProducer.dies_at = dies_at
    settings = load_or_exit(DeliverySettings)
    policy = load_policy_or_exit(settings.policy)

    def build(telemetry: Telemetry) -> DeliveryLoop:
        bus = DyingBus(KafkaConnection.of(settings))
        return DeliveryLoop(settings, bus=bus, policy=policy, telemetry=telemetry)

    return run_plain_loop(settings, build)


if __name__ == "__main__":
    parser = parser_of(__spec__, __doc__)
    parser.add_argument("topic", help="the one at which it dies")
    sys.exit(main(parser.parse_args().topic))
