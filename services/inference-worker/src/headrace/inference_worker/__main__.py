"""`python -m headrace.inference_worker`: one worker as a process, until a signal. Wiring only."""

import asyncio
import sys

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.inference_worker.settings import WorkerSettings
from headrace.inference_worker.timings import Timings
from headrace.inference_worker.wiring import serve
from headrace.runtime.process import load_policy_or_exit, run_service
from headrace.runtime.settings_loading import load_or_exit
from headrace.runtime.telemetry import Telemetry


def main() -> int:
    """The process; its exit status."""
    settings = load_or_exit(WorkerSettings)
    policy = load_policy_or_exit(settings.policy)

    async def serving(telemetry: Telemetry, stop: asyncio.Event) -> None:
        bus = KafkaBus(KafkaConnection.of(settings))
        await serve(settings, bus=bus, policy=policy, telemetry=telemetry, stop=stop)

    return run_service(settings, serving, grace=settings.drain_grace + 2 * Timings().leave_within)


if __name__ == "__main__":
    sys.exit(main())
