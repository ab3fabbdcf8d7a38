"""What every test may ask for by name. Keep it tiny: the making of things lives in tests/support."""

from collections.abc import AsyncIterator, Iterator

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer

from headrace.devkit.engine import FakeEngine
from headrace.devkit.model import ModelServer
from tests.support.broker import shared_broker, topic_prefix
from tests.support.named_tests import DOCUMENT, Outcomes, named_in
from tests.support.side_by_side import SideBySide

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")  # a loaded machine makes no test fail

OUTCOMES = Outcomes(named_in(DOCUMENT.read_text()))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Notes what becomes of the tests that docs/kafka-hazards.md names."""
    expected_to_fail = hasattr(report, "wasxfail")
    OUTCOMES.reported(report.nodeid, skipped=report.skipped, expected_to_fail=expected_to_fail)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> SideBySide:
    """How a run of several processes shares the tests out."""
    return SideBySide(config, log)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run in which one of them was skipped fails: a hazard would stand unguarded."""
    if OUTCOMES.unmet:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says which."""
    for name in sorted(OUTCOMES.unmet):
        terminalreporter.write_line(f"a hazard's test was skipped or expected to fail: {name}", red=True)


@pytest.fixture(scope="session")
def kafka() -> Iterator[str]:
    """Bootstrap address of the one broker of this run."""
    yield from shared_broker()


@pytest.fixture
def prefix() -> str:
    """A topic prefix of this test's own."""
    return topic_prefix()


@pytest.fixture
async def fake_engine() -> AsyncIterator[FakeEngine]:
    """A fast fake engine in this test's loop; `.url` is its root."""
    async with FakeEngine() as engine:
        yield engine


@pytest.fixture(scope="session")
def model() -> Iterator[str]:
    """Root URL of the one real model server of this run; model name `smollm2`."""
    with ModelServer() as server:
        yield server.url
