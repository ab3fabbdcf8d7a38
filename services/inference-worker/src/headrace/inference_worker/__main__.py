"""`python -m headrace.inference_worker`: one worker as a process, until a signal. Wiring only."""

import asyncio
import sys

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.contracts.policy import Policy
from headrace.inference_worker.settings import WorkerSettings
from headrace.inference_worker.timings import Timings
from headrace.inference_worker.wiring import serve
from headrace.runtime.heartbeat import Vitals
from headrace.runtime.logging import configure_logging, get_logger
from headrace.runtime.metrics import LoopMetrics
from headrace.runtime.policy_file import PolicyError, load_policy
from headrace.runtime.probes import serving_probes
from headrace.runtime.settings_loading import WRONG_SETTINGS, load_or_exit
from headrace.runtime.supervisor import Service, fast_loop, run_async
from headrace.runtime.telemetry import Telemetry

NAME = "inference-worker"


def main() -> int:
    """The process; its exit status."""
    settings = load_or_exit(WorkerSettings)
    configure_logging(NAME, settings.log_level, settings.log_format)
    try:
        policy = Policy(pools={}) if settings.policy is None else load_policy(settings.policy)
    except PolicyError as error:
        sys.stderr.write(f"{error}\n")
        return WRONG_SETTINGS
    return _run(settings, policy)


def _run(settings: WorkerSettings, policy: Policy) -> int:
    telemetry = Telemetry.create(settings)
    bus = KafkaBus(_connection(settings))

    async def serving(stop: asyncio.Event) -> None:
        probes = serving_probes(
            telemetry.health, telemetry.metrics.registry, settings.health_host, settings.health_port
        )
        async with probes as port:
            get_logger("start").info("started", replica=settings.name, health_port=port)
            await serve(settings, bus=bus, policy=policy, telemetry=telemetry, stop=stop)

    service = Service(NAME, serving, Vitals(telemetry.health, LoopMetrics(telemetry.metrics)))
    grace = settings.drain_grace + 2 * Timings().leave_within
    status = run_async([service], grace=grace, loop_factory=fast_loop())
    telemetry.tracing.shutdown()
    return status


def _connection(settings: WorkerSettings) -> KafkaConnection:
    password = settings.kafka_password
    return KafkaConnection(
        settings.kafka,
        security_protocol=settings.kafka_security_protocol,
        sasl_mechanism=settings.kafka_sasl_mechanism,
        username=settings.kafka_username,
        password=None if password is None else password.get_secret_value(),
        ca_file=settings.kafka_ca_file,
    )


if __name__ == "__main__":
    sys.exit(main())
