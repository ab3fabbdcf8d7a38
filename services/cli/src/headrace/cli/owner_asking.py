"""Asks the owner of a pool. Called by `headrace queue` and `headrace why`.

Invariant: the answer that counts bears the question's own nonce, so that nobody takes another's for it.
"""

from datetime import timedelta
from secrets import token_hex
from time import monotonic, sleep
from typing import NamedTuple

from headrace.cli.log_reading import Logs
from headrace.cli.queue_filters import older
from headrace.cli.trouble import Trouble
from headrace.contracts.control import Query
from headrace.contracts.durations import render
from headrace.contracts.replies import Answer
from headrace.contracts.selections import Find, Found, Selection
from headrace.contracts.topics import TopicKind

_ASK_AGAIN_S = 10.0
_LOOK_AGAIN_S = 0.05
_GATEWAY = 0
"""Any partition of `replies` will do: its reader passes over answers that it didn't ask for."""


class Looked(NamedTuple):
    """What the owner found, and when, by its clock, Unix ms."""

    found: Found
    owner_ms: int


def ask(
    logs: Logs, pool: str, selection: Selection, most: int, within: timedelta, priority: int | None = None
) -> Looked:
    """What the owner found, and how many of them have another priority than this. Raises Trouble where it says nothing
    in time, or doesn't know the question.
    """
    return _found(logs, pool, Find(selection=selection, most=most, priority=priority), within)


def ask_who_may_go(
    logs: Logs, pool: str, selection: Selection, most: int, within: timedelta, to: str, model: str | None
) -> Looked:
    """What the owner found, and how many of them may go to the pool `to`, as `model` there. Raises Trouble as above."""
    looked = _found(logs, pool, Find(selection=selection, most=most, to=to, model=model), within)
    if looked.found.may_go is None:
        raise _too_old(pool)
    return looked


def _found(logs: Logs, pool: str, find: Find, within: timedelta) -> Looked:
    nonce = token_hex(16)
    answer = _answer(logs, pool, Query(id=nonce, nonce=nonce, gateway=_GATEWAY, find=find), within)
    if answer.found is None:
        raise _too_old(pool)
    return Looked(answer.found, answer.as_of_ms)


def ask_the_time(logs: Logs, pool: str, within: timedelta) -> int:
    """What the owner's clock says now, Unix ms. Raises Trouble where it says nothing in time."""
    nonce = token_hex(16)
    return _answer(logs, pool, Query(id=nonce, nonce=nonce, gateway=_GATEWAY), within).as_of_ms


def ask_why(logs: Logs, pool: str, request_id: str, within: timedelta) -> Answer:
    """Where a request is, with `why`. Raises Trouble as above."""
    query = Query(id=request_id, nonce=token_hex(16), gateway=_GATEWAY, why=True)
    answer = _answer(logs, pool, query, within)
    if answer.why is None:
        raise _too_old(pool)
    return answer


def of_age(
    logs: Logs, pool: str, selection: Selection, age: timedelta | None, within: timedelta
) -> Selection:
    """Of these what is older than this, if an age is given, by the owner's clock. Raises Trouble as above."""
    return selection if age is None else older(selection, age, ask_the_time(logs, pool, within))


def _answer(logs: Logs, pool: str, query: Query, within: timedelta) -> Answer:
    began, asked = monotonic(), -_ASK_AGAIN_S
    with logs.news(TopicKind.REPLIES, _GATEWAY) as replies:
        while (now := monotonic()) - began < within.total_seconds():
            if now - asked >= _ASK_AGAIN_S:
                logs.order(pool, query)
                asked = now
            for _, record in replies.to_end():
                if isinstance(record, Answer) and record.nonce == query.nonce:
                    return record
            sleep(_LOOK_AGAIN_S)
    raise Trouble(
        f"the owner of {pool} hasn't answered within {render(within)}: see `headrace pools show`, or try a longer --within"
    )


def await_none(logs: Logs, pool: str, selection: Selection, within: timedelta) -> None:
    """Wait until no request fits any more. Raises Trouble where some do after this time."""
    began = monotonic()
    while (
        (found := ask(logs, pool, selection, 0, within).found).queued
        + found.running
        + found.unread_partitions
    ):
        if monotonic() - began > within.total_seconds():
            left = f"{found.queued + found.running} are left"
            unread = " and some may stand unread in the log" if found.unread_partitions else ""
            raise Trouble(
                f"after {render(within)} {left}{unread}; the order stands, and the owner of {pool} goes on with it: "
                "see `headrace queue ls`"
            )
        sleep(_LOOK_AGAIN_S)


def await_priority(logs: Logs, pool: str, selection: Selection, priority: int, within: timedelta) -> None:
    """Wait until all that the owner has read, and that fit, have this priority. Raises Trouble where some don't in time."""
    began = monotonic()
    while (others := ask(logs, pool, selection, 0, within, priority).found.of_other_priority) != 0:
        if others is None:
            raise _too_old(pool)
        if monotonic() - began > within.total_seconds():
            raise Trouble(
                f"after {render(within)} {others} have another priority; unless the log of the owner of {pool} says that too "
                "many orders stand it goes on with it: see `headrace queue ls`"
            )
        sleep(_LOOK_AGAIN_S)


def await_nobody_may_go(
    logs: Logs, pool: str, selection: Selection, within: timedelta, to: str, model: str | None
) -> None:
    """Wait until all that may go have gone, or are on their way. Raises Trouble where some haven't in time."""
    began = monotonic()
    while (found := ask_who_may_go(logs, pool, selection, 0, within, to, model).found) and (
        found.may_go or found.unread_partitions
    ):
        if monotonic() - began > within.total_seconds():
            unread = " and some may stand unread in the log" if found.unread_partitions else ""
            raise Trouble(
                f"after {render(within)} {found.may_go} are left{unread}; the order stands, and the owner of {pool} goes on "
                "with it: see `headrace queue ls`"
            )
        sleep(_LOOK_AGAIN_S)


def _too_old(pool: str) -> Trouble:
    return Trouble(
        f"the owner of {pool} is of an older version, which can't tell: upgrade the schedulers first"
    )
