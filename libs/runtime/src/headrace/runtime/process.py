"""A service as a process: logging, telemetry, probes and supervision around what its `__main__.py` wires. Called by each.

Invariant: a mistake in settings or policy is a sentence and status 2, before anything is opened; traces are flushed last.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

from headrace.contracts.mistakes import CannotRunError
from headrace.contracts.policy import Policy
from headrace.runtime.heaps import SpareHeap, keep_heaps_few
from headrace.runtime.heartbeat import Vitals
from headrace.runtime.logging import configure_logging, get_logger
from headrace.runtime.loop_supervisor import LoopService, run_loop
from headrace.runtime.metrics import LoopMetrics
from headrace.runtime.policy_file import PolicyError, load_policy
from headrace.runtime.probes import serving_probes, serving_probes_in_thread
from headrace.runtime.settings import ServiceSettings
from headrace.runtime.settings_loading import WRONG_SETTINGS
from headrace.runtime.supervisor import FAILED, GRACE, Service, fast_loop, run_async, say_why
from headrace.runtime.telemetry import Telemetry

Serve = Callable[[Telemetry, asyncio.Event], Coroutine[Any, Any, None]]
"""An asyncio service, until the event is set."""


def load_policy_or_exit(path: Path | None) -> Policy:
    """The policy of a file, or one without pools and tenants; mistakes end the process with status 2."""
    try:
        return Policy(pools={}) if path is None else load_policy(path)
    except PolicyError as error:
        exit_with(error)


def exit_with(mistake: Exception) -> NoReturn:
    """Says what is wrong with how the service was configured and ends the process with status 2."""
    sys.stderr.write(f"{mistake}\n")
    raise SystemExit(WRONG_SETTINGS) from None


def run_service(settings: ServiceSettings, serve: Serve, *, grace: timedelta = GRACE) -> int:
    """An asyncio service as this process, until a signal; its exit status. `grace` bounds its drain."""
    telemetry = _telemetry(settings)

    async def run(stop: asyncio.Event) -> None:
        probes = serving_probes(
            telemetry.health, telemetry.metrics.registry, settings.health_host, settings.health_port
        )
        async with probes as port:
            _say_started(settings, port)
            await serve(telemetry, stop)

    service = Service(telemetry.service, run, _vitals(telemetry))
    status = run_async([service], grace=grace, loop_factory=fast_loop())
    telemetry.tracing.shutdown()
    return status


def run_plain_loop(settings: ServiceSettings, build: Callable[[Telemetry], LoopService]) -> int:
    """A service with a plain loop as this process, until a signal; its exit status."""
    telemetry = _telemetry(settings)
    loop = build(telemetry)
    probes = serving_probes_in_thread(
        telemetry.health, telemetry.metrics.registry, settings.health_host, settings.health_port
    )
    try:
        with probes as port:
            _say_started(settings, port)
            status = run_loop(loop, telemetry.clock, _vitals(telemetry))
    except CannotRunError as error:
        say_why(telemetry.service, error)
        status = FAILED
    telemetry.tracing.shutdown()
    return status


def _telemetry(settings: ServiceSettings) -> Telemetry:
    keep_heaps_few()
    telemetry = Telemetry.create(settings)
    configure_logging(telemetry.service, settings.log_level, settings.log_format)
    return telemetry


def _vitals(telemetry: Telemetry) -> Vitals:
    return Vitals(telemetry.health, LoopMetrics(telemetry.metrics), heap=SpareHeap(telemetry.clock))


def _say_started(settings: ServiceSettings, port: int) -> None:
    get_logger("start").info("started", replica=settings.name, health_port=port)
