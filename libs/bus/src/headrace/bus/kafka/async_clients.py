"""Starts and stops aiokafka clients within bounds. Called by KafkaAsyncProducer and KafkaAsyncReader.

aiokafka by itself tries a first connection once, gives a silent broker its whole request time-out before it asks the next,
waits for ever for a producer's id, and for ever for what an idempotent producer couldn't send.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

from aiokafka.errors import KafkaError

from headrace.bus.kafka.aiokafka_connections import mend_connections
from headrace.bus.kafka.aiokafka_types import Client, ConsumerClient, ProducerClient, inner_client
from headrace.bus.kafka.connection import ANSWER_WITHIN
from headrace.bus.ports import BusUnavailableError

_TRY_AGAIN_S = 0.1
_STOP_AGAIN_S = 0.5
_ONE_BROKER_MS = int(ANSWER_WITHIN / timedelta(milliseconds=1)) // 4
"""How long one broker may take to answer a first question: of three, two may be silent."""
REQUEST_TIMEOUT_AT_LEAST = timedelta(seconds=1)
REQUEST_TIMEOUT_AT_MOST = timedelta(seconds=10)

C = TypeVar("C", bound=Client)


async def started(make: Callable[[], C]) -> C:
    """A client that is connected. Raises BusUnavailableError when no broker has answered within ANSWER_WITHIN."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + ANSWER_WITHIN.total_seconds()
    while True:
        client = make()
        try:
            async with asyncio.timeout_at(deadline):
                await _start(client)
        except (KafkaError, OSError, TimeoutError, RuntimeError) as error:  # the last is uvloop's
            await client.stop()
            if loop.time() + _TRY_AGAIN_S > deadline:
                raise BusUnavailableError(f"no Kafka broker answers: {error!r}") from error
            await asyncio.sleep(_TRY_AGAIN_S)
        except BaseException:
            await client.stop()
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
    first.add_done_callback(
        lambda done: done.cancelled() or done.exception()
    )  # told by start(), if anybody waits
    inner.bootstrap = lambda: asyncio.shield(first)
    try:
        await client.start()
    except BaseException:
        await asyncio.wait({first})
        with suppress(KafkaError, OSError, RuntimeError):
            first.result()
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
    accumulator = inner._message_accumulator  # noqa: SLF001
    # A batch that waits to be sent again stands in the queue alone, but its callback looks for it among those under way.
    queues = accumulator._batches.values()  # noqa: SLF001
    accumulator._pending_batches.update(*queues)  # noqa: SLF001
    # Its own stop() waits for what is unsent, which an idempotent producer never gives up.
    accumulator.fail_all(KafkaError("the producer was stopped"))
    # What its tasks still raise while they are torn down is about batches that were just given up.
    with suppress(TimeoutError, KafkaError, KeyError, AssertionError):
        async with asyncio.timeout(within.total_seconds()):
            await client.stop()
    await inner.client.close()


async def stop_consumer(client: ConsumerClient) -> None:
    """Stop a consumer. Its fetcher swallows a cancellation that comes while an assignment takes effect, and its stop() then
    waits for ever: so it is cancelled again until it ends.
    """
    stopping = asyncio.ensure_future(client.stop())
    while not (await asyncio.wait({stopping}, timeout=_STOP_AGAIN_S))[0]:
        stopping.cancel()
    with suppress(asyncio.CancelledError, KafkaError):
        stopping.result()
    # Twice is no error; the second cancel may have come in its midst. A connection that was cancelled is told as one's own
    # cancellation, which it isn't.
    closing = asyncio.ensure_future(inner_client(client).close())
    await asyncio.wait({closing})
    with suppress(asyncio.CancelledError, KafkaError):
        closing.result()
