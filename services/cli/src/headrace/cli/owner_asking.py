"""Asks the owner of a pool, and waits until it has done what was ordered. Called by `headrace queue` and `headrace why`.

Invariant: the answer that counts bears the question's own nonce, so that nobody takes another's for it.
"""

from collections.abc import Callable
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


class Owner:
    """The owner of one pool, reached through its logs. `within`: how long to wait for it. All here raise Trouble where it
    says nothing in time, or doesn't know the question.
    """

    def __init__(self, logs: Logs, pool: str, within: timedelta) -> None:
        self._logs, self._pool, self._within = logs, pool, within

    def find(self, find: Find) -> Looked:
        """What fits."""
        nonce = token_hex(16)
        answer = self._answer(Query(id=nonce, nonce=nonce, gateway=_GATEWAY, find=find))
        if answer.found is None:
            raise self._too_old()
        return Looked(answer.found, answer.as_of_ms)

    def find_who_may_go(self, find: Find) -> Looked:
        """What fits, and certainly how many of them may go to the pool `find.to`."""
        looked = self.find(find)
        if looked.found.may_go is None:
            raise self._too_old()
        return looked

    def why(self, request_id: str) -> Answer:
        """Where a request is, with `why`."""
        answer = self._answer(Query(id=request_id, nonce=token_hex(16), gateway=_GATEWAY, why=True))
        if answer.why is None:
            raise self._too_old()
        return answer

    def of_age(self, selection: Selection, age: timedelta | None) -> Selection:
        """Of these what is older than this, if an age is given, by the owner's clock."""
        return selection if age is None else older(selection, age, self._clock_ms())

    def await_none(self, selection: Selection) -> Found:
        """Wait until no request fits any more."""

        def left(found: Found) -> str | None:
            count = found.queued + found.running
            return _left(count, found) if count or found.unread_partitions else None

        return self._await(lambda: self.find(Find(selection=selection)), left)

    def await_gone(self, selection: Selection, to: str, model: str | None) -> Found:
        """Wait until all that may go to the pool `to`, as `model` there, have gone, or are on their way."""
        find = Find(selection=selection, to=to, model=model)

        def left(found: Found) -> str | None:
            return _left(found.may_go or 0, found) if found.may_go or found.unread_partitions else None

        return self._await(lambda: self.find_who_may_go(find), left)

    def await_priority(self, selection: Selection, priority: int) -> Found:
        """Wait until all that the owner has read, and that fit, have this priority."""

        def left(found: Found) -> str | None:
            if found.of_other_priority is None:
                raise self._too_old()
            return f"{found.of_other_priority} have another priority" if found.of_other_priority else None

        find = Find(selection=selection, priority=priority)
        return self._await(lambda: self.find(find), left, unless=", unless its log says that too many stand")

    def _await(
        self, look: Callable[[], Looked], left: Callable[[Found], str | None], unless: str = ""
    ) -> Found:
        """Look until `left` has nothing to tell of what is found; what was found last."""
        began = monotonic()
        while (told := left(found := look().found)) is not None:
            if monotonic() - began > self._within.total_seconds():
                raise Trouble(
                    f"after {render(self._within)} {told}; the owner of {self._pool} goes on with the order{unless}: "
                    "see `headrace queue ls`"
                )
            sleep(_LOOK_AGAIN_S)
        return found

    def _clock_ms(self) -> int:
        """What the owner's clock says now, Unix ms."""
        nonce = token_hex(16)
        return self._answer(Query(id=nonce, nonce=nonce, gateway=_GATEWAY)).as_of_ms

    def _answer(self, query: Query) -> Answer:
        began, asked = monotonic(), -_ASK_AGAIN_S
        with self._logs.news(TopicKind.REPLIES, _GATEWAY) as replies:
            while (now := monotonic()) - began < self._within.total_seconds():
                if now - asked >= _ASK_AGAIN_S:
                    self._logs.order(self._pool, query)
                    asked = now
                for _, record in replies.to_end():
                    if isinstance(record, Answer) and record.nonce == query.nonce:
                        return record
                sleep(_LOOK_AGAIN_S)
        raise Trouble(
            f"the owner of {self._pool} hasn't answered within {render(self._within)}: see `headrace pools show`, or try a "
            "longer --within"
        )

    def _too_old(self) -> Trouble:
        return Trouble(
            f"the owner of {self._pool} is of an older version, which can't tell: upgrade the schedulers first"
        )


def _left(count: int, found: Found) -> str:
    unread = " and some may stand unread in the log" if found.unread_partitions else ""
    return f"{count} are left{unread}"
