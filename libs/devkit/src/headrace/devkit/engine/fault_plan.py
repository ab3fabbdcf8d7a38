"""Faults for requests that didn't ask, struck by number or by hash. Set at /sim/faults, read by core.

POST a plan, which replaces the one before; GET shows it; DELETE empties it:

    {"rules": [{"fault": "503", "every": 3}, {"fault": "hang:2*1", "share": 0.01}], "slow": 10}

Invariant: whether a request is struck depends on its number or its bytes, on the plan, and on nothing else.
"""

from hashlib import sha256

import msgspec

from headrace.devkit.engine.faults import Fault, fault_of

WHOLE = 1 << 32


class Rule(msgspec.Struct, forbid_unknown_fields=True):
    """Strikes requests that fit all of its conditions; without any, every request.

    `numbers`: the first to arrive is 1; `every`: each that this divides; `after`: those with a greater number; `share`: of
    all bodies by their hash with `seed`, 0 to 1; `text`: those whose body contains it.
    """

    fault: str
    numbers: frozenset[int] = frozenset()
    every: int = 1
    after: int = 0
    share: float = 1.0
    seed: int = 0
    text: str = ""

    def __post_init__(self) -> None:
        """Raises ValueError for a fault that there isn't, and for a rule that can't be meant."""
        fault_of(self.fault)
        if self.every < 1 or not 0 <= self.share <= 1:
            raise ValueError("every is at least 1, share between 0 and 1")

    def strikes(self, number: int, body: bytes) -> bool:
        """Whether this request is struck."""
        return (
            number > self.after
            and number % self.every == 0
            and (not self.numbers or number in self.numbers)
            and (not self.text or self.text.encode() in body)
            and (self.share >= 1 or self._drawn(body))
        )

    def _drawn(self, body: bytes) -> bool:
        drawn = int.from_bytes(sha256(b"%d:" % self.seed + body).digest()[:4])
        return drawn < self.share * WHOLE


class FaultPlan(msgspec.Struct, forbid_unknown_fields=True):
    """The first rule that strikes counts. `slow`: the whole engine's steps take that many times longer."""

    rules: list[Rule] = []
    slow: float = 1.0

    def __post_init__(self) -> None:
        """Raises ValueError for a slowness that would turn time back."""
        if not self.slow > 0:
            raise ValueError("slow is a factor greater than 0")

    def fault_for(self, number: int, body: bytes) -> Fault | None:
        """The fault that strikes this request."""
        for rule in self.rules:
            if rule.strikes(number, body):
                return fault_of(rule.fault)
        return None
