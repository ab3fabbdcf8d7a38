"""Whether an attempt's end belongs to a death that is known, and whether a suspect must be kept apart from others.

Called by core.suspicion. Invariant: attempts of one boot that end with their engine's death at about the same time are one
death; a request is in a death once; nobody is kept apart for a first death.
"""

from datetime import timedelta

from headrace.contracts.deaths import Death
from headrace.contracts.durations import ms
from headrace.contracts.failures import FailureKind, rule_of

SAME_DEATH = timedelta(seconds=5)
"""An engine's death shows at its connections one after the other, each after a health probe that failed."""
DEATHS_TO_ISOLATION = 2


def is_same_death(
    death: Death, *, boot: str, kind: FailureKind, at_ms: int, trial: int, known: tuple[str, ...]
) -> bool:
    """Whether a request's lost attempt (on `boot`, at `at_ms`, in a trial of so many) is due to this death.

    `known` are the keys of the deaths that the request is a suspect of already: what dies again dies anew.
    """
    if (death.boot, death.kind) != (boot, kind) or death.key in known:
        return False
    if kind is FailureKind.WORKER_DIED:
        return True
    together = (death.trial > 0) is (trial > 0)
    return together and abs(at_ms - death.at_ms) <= ms(SAME_DEATH)


_SAYS_NOTHING = frozenset({FailureKind.STREAM_BROKEN, FailureKind.BACKEND_TIMEOUT})
"""An engine that hangs, or is back before anybody looks, shows itself so."""


def is_cleared(kind: FailureKind, *, started: bool, trial: int) -> bool:
    """Whether a suspect that failed in this way has survived its trial: the engine was there after it, and said so."""
    return trial > 0 and started and rule_of(kind).uses_attempt and kind not in _SAYS_NOTHING


def must_be_apart(deaths: int) -> bool:
    """Whether a suspect of so many deaths may run only where nothing else runs: it is common to two of them."""
    return deaths >= DEATHS_TO_ISOLATION
