from typing import Any

import orjson
import pytest

from headrace.bus.memory import MemoryBus
from headrace.contracts.lifecycle import Status
from headrace.inference_worker.adapters.backend_http import HttpBackend
from headrace.inference_worker.decisions.how_to_call import BackendKind
from headrace.inference_worker.ports import BackendCall
from headrace.inference_worker.settings import WorkerSettings
from tests.integration.worker.stage import chat, staged

pytestmark = pytest.mark.model
TIMELY = ("id", "created", "timings")


def comparable(body: bytes) -> Any:
    answer = orjson.loads(body)
    for name in TIMELY:
        answer.pop(name, None)
    answer.get("usage", {}).pop("prompt_tokens_details", None)  # what the prompt cache held just then
    return answer


async def directly(url: str, path: str, body: bytes) -> bytes:
    told = WorkerSettings(pool="p", backend_url=url)
    backend = HttpBackend(
        url, kind=BackendKind.LLAMA_CPP, api_key=None, connect_within=told.connect_timeout, probe_within=told.connect_timeout
    )  # fmt: skip
    try:
        async with backend.open(BackendCall(path, body, "application/json", False, {})) as reply:
            return b"".join([piece async for piece in reply.pieces()])
    finally:
        await backend.close()


async def test_an_answer_assembled_from_llama_cpp_equals_its_plain_one(model: str) -> None:
    text = chat("Say hello.", model="smollm2", temperature=0, max_tokens=12, seed=1)
    completion = orjson.dumps(
        {"model": "smollm2", "prompt": "One two three", "temperature": 0, "max_tokens": 8}
    )
    async with staged(MemoryBus(), model, backend_kind="llama.cpp") as stage:
        for route, body in (("/v1/chat/completions", text), ("/v1/completions", completion)):
            await directly(model, route, body)  # warms the prompt cache for both alike
            plain = await directly(model, route, body)
            result, assembled = await stage.result(await stage.run(body, route=route))
            assert result.status is Status.SUCCEEDED
            assert comparable(assembled) == comparable(plain)
