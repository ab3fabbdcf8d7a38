"""A backend whose answers are listened to for what they say of its limits. Made by attempt_runner for each attempt.

Invariant: the call and its answer pass as they are; whatever the headers say fails nothing.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from headrace.contracts.reports import Allowed
from headrace.inference_worker.decisions.what_is_left import what_is_left
from headrace.inference_worker.ports import Backend, BackendCall, BackendReply
from headrace.runtime.clock import Clock


class Hearing:
    """As ports.Backend."""

    def __init__(self, backend: Backend, clock: Clock, heard: Callable[[Allowed], None]) -> None:
        self._backend, self._clock, self._heard = backend, clock, heard

    @asynccontextmanager
    async def open(self, call: BackendCall) -> AsyncIterator[BackendReply]:
        """As Backend.open."""
        async with self._backend.open(call) as reply:
            if limits := reply.limits:
                allowed = what_is_left(limits, self._clock.now())
                if allowed is not None:
                    self._heard(allowed)
            yield reply

    async def alive(self) -> bool:
        """As Backend.alive."""
        return await self._backend.alive()
