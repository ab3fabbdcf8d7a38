"""The same replica on a real broker: an acknowledged submission, a live stream, resumable events, a restart."""

import asyncio
from pathlib import Path

import msgspec
import openai
import pytest

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.bus.topic_check import WrongTopicsError
from headrace.ingest.settings import IngestSettings
from headrace.ingest.wiring import serve
from headrace.runtime.telemetry import Telemetry
from tests.support.ingest import CHAT, POLICY, chat_answer, running

pytestmark = pytest.mark.kafka


async def test_a_stream_and_its_events_on_a_real_broker_and_over_a_restart(
    kafka: str, prefix: str, tmp_path: Path
) -> None:
    bus = KafkaBus(KafkaConnection(kafka))
    async with running(bus, tmp_path, prefix) as replica:
        client = openai.AsyncOpenAI(base_url=f"{replica.url}/v1", api_key="key-atlas", max_retries=0)
        async with client, asyncio.TaskGroup() as group:
            streaming = group.create_task(client.chat.completions.create(**CHAT, stream=True))
            record, received = await replica.other.request()
            assert msgspec.json.decode(received.value or b"") == {**CHAT, "stream": True}
            await replica.other.chunk(record, 0, "Good ", so_far=5)
            events = await replica.session.get(
                f"/v1/requests/{record.id}/events", headers=replica.as_tenant()
            )
            await replica.other.chunk(record, 1, "day.", so_far=9, finish_reason="stop")
            await replica.other.finish(record, chat_answer("Good day."))
            texts = [chunk.choices[0].delta.content async for chunk in await streaming]
            assert "".join(text or "" for text in texts) == "Good day."
            told = await events.read()
            assert told.count(b"event: text") >= 1
            assert b"event: end" in told
    async with (
        running(bus, tmp_path, prefix, name="two") as after,
        after.session.get(f"/v1/requests/{record.id}/result", headers=after.as_tenant()) as answer,
    ):
        assert (answer.status, await answer.read()) == (200, chat_answer("Good day."))


async def test_missing_topics_end_the_start_with_what_to_do(kafka: str, prefix: str) -> None:
    settings = IngestSettings(id_key="ab" * 32, port=0, prefix=prefix)
    telemetry, bus = Telemetry.create(settings), KafkaBus(KafkaConnection(kafka))
    with pytest.raises(WrongTopicsError, match="headrace topics apply"):
        await serve(settings, bus=bus, policy=POLICY, telemetry=telemetry, stop=asyncio.Event())
