"""The one broker of a test run, and what keeps its tests apart. Called by tests/conftest.py.

HEADRACE_BROKER chooses which, as everywhere; a process of our own by default, gone when the run ends or dies.
"""

import secrets
from collections.abc import Iterator

from headrace.devkit.broker import choose_broker


def shared_broker() -> Iterator[str]:
    """Yields the bootstrap address of a running broker; the body of a session fixture."""
    with choose_broker() as broker:
        yield broker.bootstrap


def topic_prefix() -> str:
    """A prefix for one test's topics, groups and transactional ids, such as `t3f2a9c01.`."""
    return f"t{secrets.token_hex(4)}."
