"""Where logs end, as a broker says. Called by tests that read a topic whole, or must know that it can be read."""

from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from datetime import timedelta

from headrace.bus.messages import Place
from headrace.bus.ports import START, Bus, BusUnavailableError
from tests.support.eventually import eventually, eventually_without

_WAIT = timedelta(milliseconds=50)


def ends_of(bus: Bus, places: Sequence[Place]) -> Mapping[Place, int]:
    """Their ends; of a topic made a moment ago as soon as brokers lead it, which the first of them may deny."""
    with closing(bus.ends("test")) as ends:
        return eventually_without(
            BusUnavailableError,
            lambda: eventually(ends.ask(places).answer, "an answer") or {},
            "leaders of the logs",
        )


def newest_values(bus: Bus, place: Place) -> dict[bytes | None, bytes | None]:
    """The newest value of each key, of all that is committed."""
    end, found = ends_of(bus, [place])[place], dict[bytes | None, bytes | None]()
    with closing(bus.loop_reader("test")) as reader:
        reader.assign({place: START})

        def at_end() -> bool:
            with suppress(BusUnavailableError):
                found.update((one.key, one.value) for one in reader.read(1_000, _WAIT))
            return reader.position(place) >= end

        eventually(at_end, "all that is committed")
    return found


def trim(bus: Bus, before: Mapping[Place, int]) -> None:
    """Delete all records below these offsets."""
    with closing(bus.trims("test")) as trims:
        answer = eventually(trims.ask(before).answer, "the logs to be trimmed")
    assert answer == dict(before)
