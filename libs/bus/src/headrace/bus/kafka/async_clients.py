"""Starts and stops aiokafka clients within bounds. Called by KafkaAsyncProducer and KafkaAsyncReader.

aiokafka by itself tries a first connection once, gives a silent broker its whole request time-out before it asks the next,
waits for ever for a producer's id, and for ever for what an idempotent producer couldn't send.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

from aiokafka.errors import KafkaError

from headrace.bus.kafka.aiokafka_connections import mend_connections
from headrace.bus.kafka.aiokafka_types import Client, ConsumerClient, ProducerClient, inner_client
from headrace.bus.kafka.connection import ANSWER_WITHIN
from headrace.bus.ports import BusUnavailableError
from headrace.contracts.durations import ms

_TRY_AGAIN_S = 0.1
_CANCEL_AGAIN_S = 0.2
_CLOSE_WITHIN_S = 2.0
"""For connections that close; a silent peer of a TLS connection never says that it has."""
_ONE_BROKER_MS = ms(ANSWER_WITHIN) // 4
"""How long one broker may take to answer a first question: of three, two may be silent."""
REQUEST_TIMEOUT_AT_LEAST = timedelta(seconds=1)
REQUEST_TIMEOUT_AT_MOST = timedelta(seconds=10)

C = TypeVar("C", bound=Client)


async def started(make: Callable[[], C]) -> C:
    """A client that is connected. Raises BusUnavailableError when no broker has answered within ANSWER_WITHIN.

    A client that didn't start, and one whose start was cancelled, is stopped wholly before it is told.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + ANSWER_WITHIN.total_seconds()
    while True:
        client = make()
        try:
            async with asyncio.timeout_at(deadline):
                await _start(client)
        except (KafkaError, OSError, TimeoutError, RuntimeError) as error:  # the last is uvloop's
            await wholly(_end(client))
            if loop.time() + _TRY_AGAIN_S > deadline:
                raise BusUnavailableError(f"no Kafka broker answers: {error!r}") from error
            await asyncio.sleep(_TRY_AGAIN_S)
        except BaseException:
            await wholly(_end(client))
            raise
        else:
            return client


async def _start(client: Client) -> None:
    """Connects, with little time for each broker. A cancellation waits until the first connection is closed or kept: if that
    were cancelled, aiokafka would leave it open.
    """
    inner = inner_client(client)
    mend_connections(inner)
    first = asyncio.ensure_future(_with_little_time(inner, inner.bootstrap))
    first.add_done_callback(retrieved)  # told by start(), if anybody waits
    inner.bootstrap = lambda: asyncio.shield(first)
    try:
        await client.start()
    except BaseException:
        await wholly(_done(first))
        raise
    finally:
        del inner.bootstrap


async def _with_little_time(inner: Any, bootstrap: Callable[[], Awaitable[None]]) -> None:  # noqa: ANN401 - untyped
    """The first connection; later ones have the client's own time again."""
    patience_ms, inner._request_timeout_ms = inner._request_timeout_ms, _ONE_BROKER_MS  # noqa: SLF001
    try:
        await bootstrap()
    finally:
        inner._request_timeout_ms = patience_ms  # noqa: SLF001


async def stop_producer(client: ProducerClient, within: timedelta) -> None:
    """Stop a producer; what isn't confirmed within this time is given up."""
    inner: Any = client
    with suppress(TimeoutError):
        async with asyncio.timeout(within.total_seconds()):
            await inner.flush()
    _give_up(inner._message_accumulator)  # noqa: SLF001
    # What its tasks still raise while they are torn down is about batches that were just given up.
    with suppress(TimeoutError, KafkaError, KeyError, AssertionError):
        async with asyncio.timeout(within.total_seconds()):
            await client.stop()
    await inner.client.close()


def _give_up(accumulator: Any) -> None:  # noqa: ANN401 - untyped
    """aiokafka's own stop() waits for what is unsent, which an idempotent producer never gives up."""
    # A batch that waits to be sent again stands in the queue alone, but its callback looks for it among those under way.
    queues = accumulator._batches.values()  # noqa: SLF001
    accumulator._pending_batches.update(*queues)  # noqa: SLF001
    given_up = list(accumulator._pending_batches)  # noqa: SLF001
    accumulator.fail_all(KafkaError("the producer was stopped"))
    for batch in given_up:
        # Whoever sent it has often gone, and nobody waits for it to be taken up: asyncio would log each.
        for future in (batch.future, batch._drain_waiter):  # noqa: SLF001
            if future.done():
                retrieved(future)


async def stop_consumer(client: ConsumerClient) -> None:
    """Stop a consumer, wholly even when who waits is cancelled meanwhile."""
    await wholly(_end(client))


async def _end(client: Client) -> None:
    """aiokafka's own stop() stops half-way when one of its tasks was cancelled before its first step, and waits for ever for
    a fetcher that swallowed its cancellation. So the tasks are ended first.
    """
    inner = inner_client(client)
    untyped: Any = client
    fetcher, coordinator = getattr(untyped, "_fetcher", None), getattr(untyped, "_coordinator", None)
    await _ended(
        inner._sync_task,  # noqa: SLF001
        getattr(coordinator, "_reset_committed_task", None),
        getattr(fetcher, "_fetch_task", None),
    )
    await _ended(*getattr(fetcher, "_pending_tasks", ()))
    # What was cancelled is told by each as one's own cancellation, which it isn't; and twice closed is no error.
    for close in (client.stop, getattr(fetcher, "close", None), inner.close):
        if close is not None:
            closing = asyncio.ensure_future(close())
            closing.add_done_callback(retrieved)
            await asyncio.wait({closing}, timeout=_CLOSE_WITHIN_S)
            await _ended(closing)


async def _ended(*tasks: asyncio.Future[Any] | None) -> None:
    """Cancels until they are done: aiokafka's swallow a cancellation that comes while an assignment takes effect."""
    left = {task for task in tasks if task is not None and not task.done()}
    for task in left:
        task.add_done_callback(retrieved)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=_CANCEL_AGAIN_S)


async def wholly(work: Coroutine[Any, Any, None]) -> None:
    """Does it to its end, even when who waits is cancelled meanwhile, however often; that is raised afterwards."""
    task, cancelled = asyncio.ensure_future(work), None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        retrieved(task)
        raise cancelled
    task.result()


async def _done(future: asyncio.Future[None]) -> None:
    await asyncio.wait({future})


def retrieved(done: asyncio.Future[Any]) -> None:
    """Looks at what a future raised, so that asyncio doesn't log it as never retrieved."""
    if not done.cancelled():
        done.exception()
