"""`python -m headrace.inference_worker`: one worker as a process, until a signal. Wiring only."""

import asyncio
import sys

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.contracts.policy import Policy
from headrace.inference_worker.settings import WorkerSettings
from headrace.inference_worker.timings import Timings
from headrace.inference_worker.wiring import serve
from headrace.runtime.policy_watch import PolicyWatch, follow
from headrace.runtime.process import load_policy_or_exit, run_service
from headrace.runtime.settings_loading import load_or_exit
from headrace.runtime.telemetry import Telemetry


def main() -> int:
    """The process; its exit status."""
    settings = load_or_exit(WorkerSettings)
    policy = load_policy_or_exit(settings.policy)

    async def serving(telemetry: Telemetry, stop: asyncio.Event) -> None:
        bus = KafkaBus(KafkaConnection.of(settings))
        watch = PolicyWatch(settings.policy, policy, clock=telemetry.clock, metrics=telemetry.metrics)
        watch.listen()  # SIGHUP would end a process that waits for Kafka
        following = asyncio.create_task(follow(watch, _nothing_of_it))
        try:
            await serve(settings, bus=bus, policy=policy, telemetry=telemetry, stop=stop)
        finally:
            following.cancel()

    return run_service(settings, serving, grace=settings.drain_grace + 2 * Timings().leave_within)


def _nothing_of_it(_policy: Policy) -> None:
    """A worker goes by its pool and the topics alone, and both need a restart; it only tells what is wrong with a file."""


if __name__ == "__main__":
    sys.exit(main())
