"""`python -m headrace.result_delivery`: one replica as a process, until a signal. Wiring only."""

import sys

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.bus.topic_check import lacking
from headrace.contracts.policy import Policy
from headrace.result_delivery.settings import DeliverySettings
from headrace.result_delivery.wiring import DeliveryLoop, topics_of
from headrace.runtime.policy_watch import FollowingPolicy, PolicyWatch
from headrace.runtime.process import load_policy_or_exit, run_plain_loop
from headrace.runtime.settings_loading import load_or_exit
from headrace.runtime.telemetry import Telemetry


def main() -> int:
    """The process; its exit status."""
    settings = load_or_exit(DeliverySettings)
    policy = load_policy_or_exit(settings.policy)

    def build(telemetry: Telemetry) -> FollowingPolicy:
        bus = KafkaBus(KafkaConnection.of(settings))

        def lacks(other: Policy) -> str | None:
            return lacking(lambda: bus.topics(f"{settings.name}-policy"), topics_of(settings.prefix, other))

        watch = PolicyWatch(
            settings.policy, policy, clock=telemetry.clock, metrics=telemetry.metrics, lacks=lacks
        )
        return FollowingPolicy(DeliveryLoop(settings, bus=bus, policy=policy, telemetry=telemetry), watch)

    return run_plain_loop(settings, build)


if __name__ == "__main__":
    sys.exit(main())
