"""Faults on request: what a caller asks the fake engine to do wrong. Called by server.

Asked for by a marker anywhere in the request's text, which passes through queues unchanged, or by the header
`X-Fault`: `[[fault:KIND]]`, `[[fault:KIND:N]]`, `[[fault:KIND*TIMES]]`, `[[fault:KIND:N*TIMES]]` (the header has
only what follows `fault:`). TIMES: that often for one prompt, then it is answered well; for ever without it.

429 (N: Retry-After in seconds, 1)  503  500  400     before anything is generated
hang  reset  die        after N tokens (0: before the headers); die is the end of the whole engine
cut                     after N tokens (3) the stream ends without [DONE]; a plain answer stops half-way
error-event             after N tokens (3) an error event, then [DONE]; a plain answer is a 500
malformed               after N tokens (3) a data line that is no JSON, and on; a plain answer is no JSON
slow                    N milliseconds a token (100)
"""

import re
from dataclasses import dataclass

MARK = b"[[fault:"
MARKER = re.compile(rb"\[\[fault:([a-z0-9*:-]+)\]\]")
SPELLING = re.compile(r"([a-z0-9-]+)(?::(\d+))?(?:\*(\d+))?")
DEFAULTS = {
    "429": 1,
    "503": 0,
    "500": 0,
    "400": 0,
    "hang": 0,
    "reset": 0,
    "die": 0,
    "cut": 3,
    "error-event": 3,
    "malformed": 3,
    "slow": 100,
}


@dataclass(frozen=True)
class Fault:
    """One fault; `number` is N of the module's list, `times` None for ever."""

    kind: str
    number: int
    times: int | None = None


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
