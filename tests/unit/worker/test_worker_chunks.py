import asyncio
from dataclasses import dataclass, field
from datetime import timedelta

from headrace.bus.messages import Message, Place
from headrace.bus.ports import DeliveryUnknownError
from headrace.contracts.codec import decode, find_header
from headrace.contracts.replies import Chunk
from headrace.contracts.seal import Unsealed
from headrace.contracts.topics import TopicKind
from headrace.inference_worker.chunks import MOST_WAITING_BYTES, ChunkRelay
from tests.support.eventually import eventually_async
from tests.unit.worker.scripted_world import run_of


@dataclass
class Log:
    """A producer that takes nothing until `open` is set."""

    open: asyncio.Event = field(default_factory=asyncio.Event)
    fails: int = 0
    sent: list[tuple[Chunk, bytes]] = field(default_factory=list)

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def send(self, message: Message) -> int:
        await self.open.wait()
        if self.fails:
            self.fails -= 1
            raise DeliveryUnknownError("lost")
        self.sent.append((decode(TopicKind.REPLIES, find_header(message.headers)), message.value or b""))
        return len(self.sent)


def relay_to(log: Log) -> ChunkRelay:
    return ChunkRelay(log, Place("replies", 1), run_of(1, boot="b"), Unsealed())


async def test_events_that_come_close_together_go_as_one_chunk_and_all_are_sent_before_the_end() -> None:
    log = Log()
    log.open.set()
    relay = relay_to(log)
    for n in range(50):
        relay.add(b"%d," % n, n + 1)
    await relay.finish()
    assert b"".join(value for _, value in log.sent) == b"".join(b"%d," % n for n in range(50))
    assert len(log.sent) < 5
    assert (log.sent[-1][0].characters, relay.lost) == (50, 0)


async def test_a_log_that_takes_nothing_holds_up_nobody_and_leaves_a_gap() -> None:
    log = Log()
    relay = relay_to(log)
    big = b"x" * (MOST_WAITING_BYTES // 4)
    for n in range(20):
        relay.add(big, n + 1)  # never waits, and keeps a bounded part
    assert relay.lost > 0
    log.open.set()

    async def sent() -> bool:
        return bool(log.sent)

    await eventually_async(sent, "what is left", timedelta(seconds=5))
    await relay.finish()
    numbers = [chunk.number for chunk, _ in log.sent]
    assert numbers[-1] > len(numbers) - 1
    assert log.sent[-1][0].characters == 20


async def test_a_lost_chunk_is_not_sent_again_and_its_number_is_missing() -> None:
    log = Log(fails=1)
    log.open.set()
    relay = relay_to(log)
    relay.add(b"lost", 4)

    async def lost() -> bool:
        return relay.lost == 1

    await eventually_async(lost, "the loss", timedelta(seconds=5))
    relay.add(b"kept", 8)
    await relay.finish()
    ((chunk, value),) = log.sent
    assert (chunk.number, chunk.characters, value) == (1, 8, b"kept")


async def test_the_end_of_a_stream_waits_only_a_moment_for_the_log() -> None:
    relay = relay_to(Log())
    relay.add(b"x", 1)
    await asyncio.wait_for(relay.finish(), 5)
