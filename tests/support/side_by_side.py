"""Which tests run one after the other when a run uses several processes. Called by tests/conftest.py; `make test` uses two.

Invariant: what starts whole systems runs in one process, and so does what shares a broker: two drills at once would only slow
each other.
"""

from xdist.scheduler import LoadScopeScheduling

_WHOLE, _PARTS = ("e2e", "chaos"), ("integration", "contract")


def turn_of(node_id: str) -> str:
    """Tests of one turn run in one process, one after the other. Those that need nothing but a processor: by file."""
    path = node_id.partition("::")[0]
    folder = path.split("/")[1]
    return "whole systems" if folder in _WHOLE else "real parts" if folder in _PARTS else path


class SideBySide(LoadScopeScheduling):
    """Begins with the turns of most tests."""

    def _split_scope(self, nodeid: str) -> str:
        return turn_of(nodeid)
