"""`python -m headrace.scheduler`: one replica as a process, until a signal. Wiring only."""

import sys

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.bus.topic_check import lacking
from headrace.contracts.policy import Policy
from headrace.runtime.policy_watch import FollowingPolicy, PolicyWatch
from headrace.runtime.process import exit_with, load_policy_or_exit, run_plain_loop
from headrace.runtime.settings_loading import load_or_exit
from headrace.runtime.telemetry import Telemetry
from headrace.scheduler.settings import SchedulerSettings
from headrace.scheduler.wiring import UnknownPoolError, build, topics_that_come


def main() -> int:
    """The process; its exit status."""
    settings = load_or_exit(SchedulerSettings)
    policy = load_policy_or_exit(settings.policy)

    def scheduler(telemetry: Telemetry) -> FollowingPolicy:
        bus = KafkaBus(KafkaConnection.of(settings))

        def lacks(other: Policy) -> str | None:
            return lacking(lambda: bus.topics(f"{settings.name}-policy"), topics_that_come(settings, other))

        watch = PolicyWatch(
            settings.policy, policy, clock=telemetry.clock, metrics=telemetry.metrics, lacks=lacks
        )
        try:
            return FollowingPolicy(build(settings, bus=bus, policy=policy, telemetry=telemetry), watch)
        except UnknownPoolError as error:
            exit_with(error)

    return run_plain_loop(settings, scheduler)


if __name__ == "__main__":
    sys.exit(main())
