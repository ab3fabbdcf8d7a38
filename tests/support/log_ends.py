"""Where logs end, as a broker says. Called by tests that read a topic whole, or must know that it can be read."""

from collections.abc import Mapping, Sequence
from contextlib import closing

from headrace.bus.messages import Place
from headrace.bus.ports import Bus, BusUnavailableError
from tests.support.eventually import eventually, eventually_without


def ends_of(bus: Bus, places: Sequence[Place]) -> Mapping[Place, int]:
    """Their ends; of a topic made a moment ago as soon as brokers lead it, which the first of them may deny."""
    with closing(bus.ends("test")) as ends:
        return eventually_without(
            BusUnavailableError,
            lambda: eventually(ends.ask(places).answer, "an answer") or {},
            "leaders of the logs",
        )
