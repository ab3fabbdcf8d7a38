"""Whether a service is alive and whether it may be given work. Fed by the service and its supervisor, read by probes.

Live: each loop turned lately; an open port proves nothing. Ready: every component says so and the service isn't
draining. Invariant: the verdict is a pure function of what was said and of the time; reading it changes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from headrace.contracts.clock import Now
from headrace.runtime.clock import Clock

STARTING = "starting"
DRAINING = "draining"


@dataclass(frozen=True, slots=True)
class ComponentState:
    """What one component last said."""

    name: str
    not_ready: str | None = None
    """Why it can't take work; None when it can."""
    stalls_after: timedelta | None = None
    """Longest time between two turns of a live loop; None for a component that has no loop."""
    turned_ms: int = 0
    """When it last turned, in ms since boot."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A component that isn't well, and why."""

    component: str
    reason: str


@dataclass(frozen=True, slots=True)
class HealthVerdict:
    """What is not well; nothing at all when both are empty."""

    not_live: tuple[Trouble, ...]
    not_ready: tuple[Trouble, ...]


def evaluate(states: Sequence[ComponentState], now: Now) -> HealthVerdict:
    """The verdict at `now`. A loop that stalls is neither live nor ready."""
    stalled = tuple(
        Trouble(state.name, f"its loop hasn't turned for {(now.boot_ms - state.turned_ms) / 1000:.1f} s")
        for state in states
        if state.stalls_after is not None and _since(state, now) > state.stalls_after
    )
    refusing = tuple(Trouble(state.name, state.not_ready) for state in states if state.not_ready is not None)
    return HealthVerdict(not_live=stalled, not_ready=stalled + refusing)


class Component:
    """One part's say in its service's health. Made by `Health.component`."""

    def __init__(self, state: ComponentState, clock: Clock) -> None:
        self._clock = clock
        self._state = replace(state, turned_ms=clock.now().boot_ms)

    @property
    def state(self) -> ComponentState:
        """What it last said. Replaced as a whole, so that a probe's thread never sees half of it."""
        return self._state

    def turned(self) -> None:
        """The loop goes round."""
        self._state = replace(self._state, turned_ms=self._clock.now().boot_ms)

    def ready(self) -> None:
        """It can take work."""
        if self._state.not_ready is not None:
            self._state = replace(self._state, not_ready=None)

    def not_ready(self, reason: str) -> None:
        """It can't take work now, for a reason that an operator reads."""
        self._state = replace(self._state, not_ready=reason)


class Health:
    """All components of one service."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._components: tuple[Component, ...] = ()

    def component(
        self, name: str, *, stalls_after: timedelta | None = None, not_ready: str | None = STARTING
    ) -> Component:
        """A new component, not ready until it says so (or at once, with `not_ready=None`)."""
        component = Component(ComponentState(name, not_ready, stalls_after), self._clock)
        self._components = (*self._components, component)
        return component

    def drain(self) -> None:
        """The service takes no more work; for good."""
        self.component("supervisor", not_ready=DRAINING)

    def verdict(self) -> HealthVerdict:
        """How things stand now."""
        return evaluate([component.state for component in self._components], self._clock.now())


def _since(state: ComponentState, now: Now) -> timedelta:
    return timedelta(milliseconds=now.boot_ms - state.turned_ms)
