"""Rules about what readers were sent: legal moves, and texts that are the beginning of the stored one. Called by judging.

Invariant: what counts is the text since the last `restart`; a stream that ended must have said exactly what is stored, an
open one a beginning of it. A connection that broke off, and was never resumed, told its reader by breaking off.
"""

from collections import defaultdict
from collections.abc import Iterator

from tests.support.checker.history import RESULTS, History, Seen
from tests.support.checker.lifecycle import QUEUED, path_exists


def _by_reader(history: History) -> dict[tuple[str, str], list[Seen]]:
    found: defaultdict[tuple[str, str], list[Seen]] = defaultdict(list)
    for each in history.of(Seen):
        found[each.id, each.reader].append(each)
    return found


def illegal_move(history: History) -> Iterator[str]:
    """One observer saw a status that can't follow the one before. Accepted means queued."""
    for (request, reader), seen in _by_reader(history).items():
        before = QUEUED
        for status in (each.status for each in seen if each.status is not None):
            if not path_exists(before, status):
                yield f"{reader} saw {request} go from {before} to {status}"
            before = status


def wrong_text(history: History) -> Iterator[str]:
    """A reader was sent what isn't the beginning of the stored text, and wasn't told to forget it."""
    rows = history.rows(RESULTS) or ()
    stored = {row["id"]: row["text"] or "" for row in rows if "text" in row}
    for (request, reader), seen in _by_reader(history).items():
        if request not in stored or seen[-1].event == "broken":
            continue
        text, ended = _text_since_restart(seen)
        whole = stored[request]
        if not whole.startswith(text) or (ended and text != whole):
            yield f"{reader} was sent {text[:80]!r} of {request}, and stored is {whole[:80]!r}"


def _text_since_restart(seen: list[Seen]) -> tuple[str, bool]:
    text, ended = "", False
    for each in seen:
        if each.event == "restart":
            text = ""
        text += each.text
        ended = ended or each.event == "end"
    return text, ended
