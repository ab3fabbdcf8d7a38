"""`python -m headrace.ingest`: one replica as a process, until a signal. Wiring only."""

import asyncio
import sys

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.bus.topic_check import lacking
from headrace.contracts.policy import Policy
from headrace.ingest.connecting import required_of
from headrace.ingest.settings import IngestSettings
from headrace.ingest.wiring import serve
from headrace.runtime.policy_watch import PolicyWatch
from headrace.runtime.process import load_policy_or_exit, run_service
from headrace.runtime.settings_loading import load_or_exit
from headrace.runtime.telemetry import Telemetry


def main() -> int:
    """The process; its exit status."""
    settings = load_or_exit(IngestSettings)
    policy = load_policy_or_exit(settings.policy)

    async def serving(telemetry: Telemetry, stop: asyncio.Event) -> None:
        bus = KafkaBus(KafkaConnection.of(settings))

        def lacks(other: Policy) -> str | None:
            return lacking(lambda: bus.topics(f"{settings.name}-policy"), required_of(other, settings.prefix))

        watch = PolicyWatch(
            settings.policy, policy, clock=telemetry.clock, metrics=telemetry.metrics, lacks=lacks
        )
        watch.listen()  # SIGHUP would end a process that waits for Kafka
        await serve(settings, bus=bus, policy=policy, telemetry=telemetry, stop=stop, watch=watch)

    return run_service(settings, serving)


if __name__ == "__main__":
    sys.exit(main())
