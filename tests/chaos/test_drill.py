"""A short drill: a few blows of each kind on three brokers under load, and every promise is kept. See `make drill`."""

from pathlib import Path

import pytest

from tests.support.drill.run import Order, drill
from tests.support.postgres import programs

pytestmark = pytest.mark.kafka

SEED, KILLS, SECONDS, REQUESTS = 1265, 14, 75, 450
"""A seed whose plan strikes each kind of process, cuts connections both ways and locks the database."""


def test_every_promise_is_kept_whatever_is_killed(tmp_path: Path) -> None:
    lines: list[str] = []
    order = Order(SEED, KILLS, REQUESTS, SECONDS, postgres=programs() is not None)
    outcome = drill(order, tmp_path, lines.append)
    assert outcome.wrong == [], "\n".join(lines)
    assert outcome.counted.lacking == [], "\n".join(lines)
