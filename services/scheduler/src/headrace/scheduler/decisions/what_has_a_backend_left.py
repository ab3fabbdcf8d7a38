"""How much more may a backend be given, as its last answer told, and from when on? Asked by state.backend_ceilings.

Invariant: what was given since that answer is taken off, be it on its way; what a backend said holds for a minute at most.
The last request isn't asked how many tokens it will take.
"""

from typing import NamedTuple

from headrace.contracts.reports import Allowed, Left

_MINUTE_MS = 60_000


class Rest(NamedTuple):
    """Requests, or tokens: so many were `left` at an instant, which is known until another, both ms since boot. `back`: so
    many come back evenly in a minute; None: all of them at the end.
    """

    left: int
    at_ms: int
    until_ms: int
    back: int | None = None


class Rests(NamedTuple):
    """Of both; None: nobody knows."""

    requests: Rest | None
    tokens: Rest | None

    @property
    def until_ms(self) -> int:
        """As long as any of it is known."""
        return max((each.until_ms for each in self if each is not None), default=0)

    @property
    def opens_ms(self) -> int:
        """From when on it takes more."""
        return max(_opens_ms(each) for each in self)

    def less(self, tokens: int) -> "Rests":
        """One more request was given, of so many tokens."""
        return Rests(_less(self.requests, 1), _less(self.tokens, tokens))


def rests_of(allowed: Allowed | None, on_the_way: tuple[int, int], boot_ms: int) -> Rests | None:
    """`on_the_way`: so many requests and tokens were given and haven't begun, so that their worker doesn't count them."""
    if allowed is None:
        return None
    requests, tokens = on_the_way
    return Rests(_rest_of(allowed.requests, requests, boot_ms), _rest_of(allowed.tokens, tokens, boot_ms))


def _rest_of(said: Left | None, on_the_way: int, boot_ms: int) -> Rest | None:
    if said is None or said.left is None or not said.reset_ms:
        return None
    back = said.limit if said.steady else None
    return Rest(said.left - on_the_way, boot_ms, boot_ms + said.reset_ms, back)


def _less(rest: Rest | None, given: int) -> Rest | None:
    return None if rest is None else rest._replace(left=rest.left - given)


def _opens_ms(rest: Rest | None) -> int:
    if rest is None or rest.left > 0:
        return 0
    if rest.back is None:
        return rest.until_ms
    return min(rest.until_ms, rest.at_ms - -(1 - rest.left) * _MINUTE_MS // rest.back)
