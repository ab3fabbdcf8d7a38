"""Asks a pool's owner where a request is, why it waits, and what another would meet; fulfils ports.Owners.

Invariant: nobody waits longer than `PATIENCE` for a status, for which a silent owner means the last answer known, or none;
nor than `LONGER` for reasons and quotes, which are never old ones.
"""

import asyncio
import contextlib
import secrets
from collections import OrderedDict
from datetime import timedelta

from headrace.bus.messages import Place, message_of
from headrace.bus.ports import AsyncProducer, BusError
from headrace.contracts.control import Query
from headrace.contracts.explanations import Quote
from headrace.contracts.replies import Answer
from headrace.contracts.topics import TopicKind, TopicNames
from headrace.ingest.adapters.replies_reader import Listeners

PATIENCE = timedelta(milliseconds=300)
LONGER = timedelta(seconds=1)
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
        answer = await self._asked(self._query(request_id), pool, PATIENCE)
        if answer is not None:
            self._remember(answer)
        return self._last.get(request_id)

    async def why(self, request_id: str, pool: str) -> Answer | None:
        """The owner's answer with its reasons; None also from an owner that doesn't know the question."""
        answer = await self._asked(self._query(request_id, why=True), pool, LONGER)
        return None if answer is None or answer.why is None else answer

    async def quote(self, quote: Quote) -> Answer | None:
        """The owner's offers; None also where it knows none of the tiers."""
        query = self._query(quote.request.id, quote=quote)
        answer = await self._asked(query, quote.request.pool, LONGER)
        return None if answer is None or not answer.offers else answer

    def _query(self, request_id: str, *, why: bool = False, quote: Quote | None = None) -> Query:
        nonce = secrets.token_hex(8)
        return Query(id=request_id, nonce=nonce, gateway=self._gateway, why=why, quote=quote)

    async def _asked(self, query: Query, pool: str, patience: timedelta) -> Answer | None:
        answered = self._listeners.expect(query.nonce)
        try:
            async with asyncio.timeout(patience.total_seconds()):
                await self._send(query, pool)
                return await answered
        except TimeoutError:
            return None
        finally:
            self._listeners.forget(query.nonce)

    async def _send(self, query: Query, pool: str) -> None:
        place = Place(self._names.of(TopicKind.CONTROL, pool=pool), 0)
        with contextlib.suppress(BusError):
            await self._producer.send(message_of(place, query))

    def _remember(self, answer: Answer) -> None:
        self._last[answer.id] = answer
        self._last.move_to_end(answer.id)
        if len(self._last) > _REMEMBERED:
            self._last.popitem(last=False)
