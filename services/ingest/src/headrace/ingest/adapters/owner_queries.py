"""Asks a pool's owner where a request is. Called for requests that have no result yet; fulfils ports.Owners.

Invariant: nobody waits longer than `PATIENCE`; a silent owner means the last answer known, or none.
"""

import asyncio
import contextlib
import secrets
from collections import OrderedDict
from datetime import timedelta

from headrace.bus.messages import Place, message_of
from headrace.bus.ports import AsyncProducer, BusError
from headrace.contracts.control import Query
from headrace.contracts.replies import Answer
from headrace.contracts.topics import TopicKind, TopicNames
from headrace.ingest.adapters.replies_reader import Listeners

PATIENCE = timedelta(milliseconds=300)
_REMEMBERED = 10_000


class OwnerQueries:
    """Queries on `control.{pool}`, answers on this replica's partition of `replies`."""

    def __init__(
        self, producer: AsyncProducer, names: TopicNames, gateway: int, listeners: Listeners
    ) -> None:
        self._producer, self._names, self._gateway = producer, names, gateway
        self._listeners = listeners
        self._last: OrderedDict[str, Answer] = OrderedDict()

    async def ask(self, request_id: str, pool: str) -> Answer | None:
        """The owner's answer, or the last one known, or None."""
        nonce = secrets.token_hex(8)
        answered = self._listeners.expect(nonce)
        try:
            async with asyncio.timeout(PATIENCE.total_seconds()):
                await self._send(Query(id=request_id, nonce=nonce, gateway=self._gateway), pool)
                self._remember(await answered)
        except TimeoutError:
            pass
        finally:
            self._listeners.forget(nonce)
        return self._last.get(request_id)

    async def _send(self, query: Query, pool: str) -> None:
        place = Place(self._names.of(TopicKind.CONTROL, pool=pool), 0)
        with contextlib.suppress(BusError):
            await self._producer.send(message_of(place, query))

    def _remember(self, answer: Answer) -> None:
        self._last[answer.id] = answer
        self._last.move_to_end(answer.id)
        if len(self._last) > _REMEMBERED:
            self._last.popitem(last=False)
