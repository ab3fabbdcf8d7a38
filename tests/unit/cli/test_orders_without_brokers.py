"""An order that no broker can take is told as one that was not given: nobody has to doubt whether it will be obeyed."""

from typing import Any

import pytest

from headrace.bus.ports import BusUnavailableError
from headrace.cli import log_reading
from headrace.cli.log_reading import logs_of
from headrace.cli.trouble import Trouble
from headrace.contracts.control import Freeze
from headrace.contracts.policy import policy_from
from headrace.runtime.settings import ServiceSettings

POLICY = policy_from({"pools": {"p": {"models": {"m": "m"}}}})


class Unreachable:
    """A bus of whose brokers none answers; it has no producer."""

    def topics(self, _name: str) -> "Unreachable":
        return self

    def describe(self, _names: list[str]) -> Any:
        raise BusUnavailableError("nobody is there")

    def close(self) -> None:
        """Nothing is open."""


def test_no_order_is_sent_where_no_broker_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reading, "bus_of", lambda _settings: Unreachable())
    settings = ServiceSettings(kafka="here:1", prefix="h.")
    with pytest.raises(Trouble, match="no broker answers at here:1: start one"), logs_of(settings) as logs:
        logs.order("p", Freeze())
    with pytest.raises(Trouble, match="no broker answers at here:1: start one"), logs_of(settings) as logs:
        logs.ends_of_requests("p", POLICY)
