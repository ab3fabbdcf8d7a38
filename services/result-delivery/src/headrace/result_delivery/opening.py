"""What must be there before the loop may run: the topics as the table says, and the database's tables. Used by the wiring.

Invariant: what is absent for now is waited for, ready for nothing and logged once; what is wrong ends the service with a
sentence.
"""

from collections.abc import Callable
from datetime import timedelta

from headrace.bus.ports import BusUnavailableError
from headrace.result_delivery.backoff import Backoff
from headrace.result_delivery.ports import StoreUnavailableError
from headrace.runtime.clock import Clock
from headrace.runtime.health import Component
from headrace.runtime.logging import get_logger


class Opening:
    """Tries each step until it succeeds, a try at a call."""

    def __init__(self, steps: list[Callable[[], None]], clock: Clock, component: Component) -> None:
        self._steps = list(steps)
        self._backoff = Backoff(clock, timedelta(milliseconds=100), timedelta(seconds=5))
        self._component = component
        self._told = ""

    def done(self) -> bool:
        """Goes on as far as it gets; True when nothing is left. Raises WrongTopicsError, WrongSchemaError."""
        while self._steps and self._backoff.due():
            try:
                self._steps[0]()
            except (BusUnavailableError, StoreUnavailableError) as error:
                self._wait_for(error)
            else:
                self._steps.pop(0)
                self._backoff.succeeded()
        return not self._steps

    def then(self, step: Callable[[], None]) -> None:
        """This must be done as well before the loop runs again."""
        self._steps.append(step)

    def again(self, step: Callable[[], None], error: BusUnavailableError) -> None:
        """What was there is gone; this step brings it back."""
        self._steps.append(step)
        self._told = ""
        self._wait_for(error)

    def _wait_for(self, error: BusUnavailableError | StoreUnavailableError) -> None:
        what = "Kafka" if isinstance(error, BusUnavailableError) else "SQL"
        self._component.not_ready(f"waiting for {what}")
        if self._told != what:
            get_logger("start").warning(f"waiting for {what}", reason=str(error))
            self._told = what
        self._backoff.failed()
