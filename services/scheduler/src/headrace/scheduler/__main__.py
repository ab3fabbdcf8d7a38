"""`python -m headrace.scheduler`: settings, policy, Kafka, probes, then the loop until a signal. Wiring only."""

import sys

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.contracts.policy import Policy
from headrace.runtime.heartbeat import Vitals
from headrace.runtime.logging import configure_logging, get_logger
from headrace.runtime.loop_supervisor import run_loop
from headrace.runtime.metrics import LoopMetrics
from headrace.runtime.policy_file import PolicyError, load_policy
from headrace.runtime.probes import serving_probes_in_thread
from headrace.runtime.settings_loading import WRONG_SETTINGS, load_or_exit
from headrace.runtime.telemetry import Telemetry
from headrace.scheduler.settings import SchedulerSettings
from headrace.scheduler.wiring import UnknownPoolError, build

NAME = "scheduler"


def main() -> int:
    """The process; its exit status."""
    settings = load_or_exit(SchedulerSettings)
    configure_logging(NAME, settings.log_level, settings.log_format)
    try:
        policy = Policy(pools={}) if settings.policy is None else load_policy(settings.policy)
    except PolicyError as error:
        sys.stderr.write(f"{error}\n")
        return WRONG_SETTINGS
    telemetry = Telemetry.create(settings)
    try:
        loop = build(settings, bus=KafkaBus(_connection(settings)), policy=policy, telemetry=telemetry)
    except UnknownPoolError as error:
        sys.stderr.write(f"{error}\n")
        return WRONG_SETTINGS
    vitals = Vitals(telemetry.health, LoopMetrics(telemetry.metrics))
    probes = serving_probes_in_thread(
        telemetry.health, telemetry.metrics.registry, settings.health_host, settings.health_port
    )
    with probes as port:
        get_logger("start").info("started", replica=settings.name, health_port=port)
        status = run_loop(loop, telemetry.clock, vitals)
    telemetry.tracing.shutdown()
    return status


def _connection(settings: SchedulerSettings) -> KafkaConnection:
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
