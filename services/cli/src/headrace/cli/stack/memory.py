"""All services in this one process, on the bus in memory: nothing is installed, started or kept. See MemoryStack.

Called by `headrace dev up --bus memory` and by tests. Plain loops run in threads, the others on the running event loop.
Invariant: when `serve` returns, no thread and no port of it is left; the first service that fails ends the others.
"""

import asyncio
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.bus.memory import MemoryBus
from headrace.bus.topic_check import apply_topics
from headrace.cli.options import topics_of
from headrace.cli.service_packages import settings_class
from headrace.cli.stack.plan import Backend, admit
from headrace.cli.stack.service import StackFailed
from headrace.cli.trouble import part
from headrace.contracts.policy import Policy
from headrace.runtime.policy_file import load_policy
from headrace.runtime.settings import ServiceSettings
from headrace.runtime.telemetry import Telemetry

LOOPS = ("result_delivery", "scheduler")
ASYNC = ("inference_worker", "ingest")
Serve = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Parts:
    """What every service gets: the bus, the policy, and its own settings by name."""

    bus: MemoryBus
    policy: Policy
    settings: Mapping[str, ServiceSettings]

    def given(self, name: str) -> dict[str, Any]:
        """The arguments of its wiring's `serve`, but for `stop`."""
        telemetry = Telemetry.create(self.settings[name])
        return {"bus": self.bus, "policy": self.policy, "telemetry": telemetry}


class MemoryStack:
    """One of each service, for one backend. `policy` is TOML; tenants without a key get one, in `keys`."""

    def __init__(self, *, folder: Path, policy: str, backend: Backend, port: int = 0) -> None:
        admitted = admit(policy)
        self.keys, self._folder, self._text = admitted.keys, folder, admitted.text
        self._backend, self._port = backend, port

    async def serve(self, stop: asyncio.Event, listening: Callable[[str], None]) -> None:
        """Runs until `stop`; `listening` gets the URL of ingest. Raises what a service raised first."""
        parts = self._parts()
        loops = [_LoopThread(name, parts, stop) for name in LOOPS]
        for loop in loops:
            loop.start()
        try:
            await self._serve_async(parts, stop, listening)
        finally:
            for loop in loops:
                await loop.end()
        for loop in loops:
            loop.raise_failure()

    def _parts(self) -> Parts:
        path = self._folder / "policy.toml"
        path.write_text(self._text)
        policy = load_policy(path)
        settings = {name: self._settings(name, path) for name in (*LOOPS, *ASYNC)}
        bus = MemoryBus()
        topics = bus.topics("headrace-dev")
        apply_topics(topics, topics_of(policy, settings["ingest"].prefix))
        topics.close()
        return Parts(bus, policy, settings)

    def _settings(self, name: str, policy: Path) -> ServiceSettings:
        database: dict[str, Any] = {
            "database": f"sqlite:////{str(self._folder.absolute()).lstrip('/')}/results.db"
        }
        backend = self._backend
        own: dict[str, dict[str, Any]] = {
            "result_delivery": {**database},
            "scheduler": {},
            "inference_worker": {
                "pool": backend.pool,
                "backend_url": backend.url,
                "backend_kind": backend.kind,
                "limit": backend.limit,
            },
            "ingest": {**database, "port": self._port, "id_key": secrets.token_hex(32)},
        }
        given: dict[str, Any] = {"policy": policy, "name": f"{name}-memory", **own[name]}
        return settings_class(name)(**given)

    async def _serve_async(self, parts: Parts, stop: asyncio.Event, listening: Callable[[str], None]) -> None:
        """ingest ends first, so that what it has accepted still finds a worker."""
        worker_stop = asyncio.Event()

        async def door() -> None:
            try:
                serve = _serve_of("ingest")
                await serve(parts.settings["ingest"], **parts.given("ingest"), stop=stop, listening=listening)
            finally:
                worker_stop.set()

        async def worker() -> None:
            try:
                serve = _serve_of("inference_worker")
                await serve(
                    parts.settings["inference_worker"], **parts.given("inference_worker"), stop=worker_stop
                )
            finally:
                stop.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(door())
            group.create_task(worker())


class _LoopThread:
    """A plain loop in a thread of its own; when it ends by itself, everything ends."""

    def __init__(self, name: str, parts: Parts, stop_all: asyncio.Event) -> None:
        self._name, self._halt, self._ended = name, threading.Event(), asyncio.Event()
        self._failure: Exception | None = None
        loop = asyncio.get_running_loop()

        def live() -> None:
            try:
                _serve_of(name)(parts.settings[name], **parts.given(name), stop=self._halt)
            except Exception as error:  # noqa: BLE001 handed on: raised by raise_failure
                self._failure = error
            loop.call_soon_threadsafe(self._ended.set)
            loop.call_soon_threadsafe(stop_all.set)

        self._thread = threading.Thread(target=live, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    async def end(self) -> None:
        """Tells it to stop, and waits until it has."""
        self._halt.set()
        await self._ended.wait()
        self._thread.join()

    def raise_failure(self) -> None:
        if self._failure is not None:
            raise StackFailed(f"{self._name} ended: {self._failure}") from self._failure


def _serve_of(name: str) -> Serve:
    serve: Serve = part(f"headrace.{name}.wiring").serve
    return serve
