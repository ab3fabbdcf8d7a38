"""Faults on request: what a caller asks the engine to do wrong. Called by generating and fault_plan.

Asked for by a marker anywhere in the request's text, which passes through queues unchanged, or by the header
`X-Fault`: `[[fault:KIND]]`, `[[fault:KIND:N]]`, `[[fault:KIND*TIMES]]`, `[[fault:KIND:N*TIMES]]` (the header has
only what follows `fault:`). TIMES: that often for one prompt, then it is answered well; for ever without it.
At /sim/faults the same spelling makes rules for requests that don't ask (fault_plan).

429 (N: Retry-After in seconds, 1)  503 (N: likewise, 0)     before anything is generated
500  400  404  context  html                                 the same; html is a proxy's page with status 502
dead                    the engine dies: 500 for all inside and all who come, /health 503, well after N seconds (0: never)
hang  reset  die        after N tokens (0: before the headers); die is the end of the whole process
cut                     after N tokens (3) the stream ends, without [DONE]; a plain answer stops half-way
error-event             after N tokens (3) an error event, then [DONE]; a plain answer is a 500
malformed               after N tokens (3) a data line that is no JSON, and on; a plain answer is no JSON
slow                    N milliseconds a token (100)
no-done  no-usage  double-finish                             a stream without its end, its usage, with two finishes
comments  split-utf8    keep-alive lines before each event; each event in two packets, parted inside a character
"""

import re
from dataclasses import dataclass

from headrace.devkit.engine.refusals import (
    EngineRefusal,
    ProxyRefusal,
    bad,
    busy,
    dead,
    no_such_model,
    too_long,
)

MARK = b"[[fault:"
MARKER = re.compile(rb"\[\[fault:([a-z0-9*:-]+)\]\]")
SPELLING = re.compile(r"([a-z0-9-]+)(?::(\d+))?(?:\*(\d+))?")
DEFAULTS = {
    "429": 1,
    "503": 0,
    "500": 0,
    "400": 0,
    "404": 0,
    "context": 0,
    "html": 0,
    "dead": 0,
    "hang": 0,
    "reset": 0,
    "die": 0,
    "cut": 3,
    "error-event": 3,
    "malformed": 3,
    "slow": 100,
    "no-done": 0,
    "no-usage": 0,
    "double-finish": 0,
    "comments": 0,
    "split-utf8": 0,
}
ENDING_ALL = frozenset({"hang", "reset", "die"})
STALLING = ENDING_ALL | {"cut", "error-event"}
"""Kinds after whose N tokens the engine generates no more."""


@dataclass(frozen=True)
class Fault:
    """One fault; `number` is N of the module's list, `times` None for ever."""

    kind: str
    number: int
    times: int | None = None

    def refusal(self, model: str, max_model_len: int) -> EngineRefusal | None:
        """The error answer that this fault is, if it is one."""
        kinds = {
            "429": lambda: busy(429, self.number),
            "503": lambda: busy(503, self.number),
            "500": dead,
            "400": lambda: bad("This request is refused, as it asked to be.", "input_tokens"),
            "404": lambda: no_such_model(model),
            "context": lambda: too_long(max_model_len + 1, max_model_len),
            "html": ProxyRefusal,
        }
        return kinds[self.kind]() if self.kind in kinds else None


def fault_of(spelling: str) -> Fault:
    """Reads `KIND[:N][*TIMES]`; raises ValueError with the kinds there are."""
    found = SPELLING.fullmatch(spelling)
    if not found or found[1] not in DEFAULTS:
        raise ValueError(f"no fault {spelling!r}: there are {', '.join(DEFAULTS)}, with :N and *TIMES behind")
    kind, number, times = found.groups()
    return Fault(kind, int(number) if number else DEFAULTS[kind], int(times) if times else None)


def asked_fault(header: str | None, body: bytes) -> Fault | None:
    """The fault that this request asks for; raises ValueError when it is none."""
    if header:
        return fault_of(header)
    if MARK in body and (found := MARKER.search(body)):
        return fault_of(found[1].decode())
    return None


class FaultCounter:
    """How often each prompt has had its fault; kept in memory, so an engine that died counts anew."""

    def __init__(self) -> None:
        self._had: dict[tuple[str, Fault], int] = {}

    def due(self, prompt: str, fault: Fault | None) -> Fault | None:
        """The fault if it is still due, counting it; else None."""
        if fault is None or fault.times is None:
            return fault
        had = self._had.get((prompt, fault), 0)
        self._had[prompt, fault] = had + 1
        return fault if had < fault.times else None
