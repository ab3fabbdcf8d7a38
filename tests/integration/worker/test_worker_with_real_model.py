from typing import Any

import orjson
import pytest

from headrace.bus.memory import MemoryBus
from headrace.contracts.kept_text import KeptText
from headrace.contracts.lifecycle import Status
from headrace.inference_worker.adapters.backend_http import HttpBackend
from headrace.inference_worker.decisions.can_it_go_on import CHAT
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


@pytest.mark.parametrize("route", ["/v1/chat/completions", "/v1/completions"])
async def test_a_real_model_goes_on_with_its_own_half_answer_as_if_it_had_never_stopped(
    model: str, route: str
) -> None:
    said = {"messages": [{"role": "user", "content": "Say the days of the week, beginning with Monday."}]}
    told = said if route == CHAT else {"prompt": "Monday, Tuesday, Wednesday,"}
    body = {"model": "smollm2", "temperature": 0, "max_tokens": 24, **told}
    async with staged(MemoryBus(), model, backend_kind="llama.cpp") as stage:
        whole = await stage.run(orjson.dumps({**body, "stream": True}), route=route, stream=True)
        result, undisturbed = await stage.result(whole)
        pieces = [piece for _, value in await stage.chunks(whole) for piece in texts_in(value)]
        half = pieces[: result.usage.completion_tokens // 2]
        kept = KeptText(
            attempt=whole, size=len("".join(half).encode()), tokens=len(half), characters=len("".join(half))
        )
        again = await stage.run(orjson.dumps(body), route=route, text=kept, kept="".join(half).encode())
        last, answer = await stage.result(again)
        assert (await stage.ended(again)).before == len(half) > 3
    assert text_of(answer) == text_of(undisturbed)
    assert last.usage.completion_tokens == result.usage.completion_tokens


def texts_in(raw: bytes) -> list[str]:
    """What the events of a chunk say, one for each token."""
    lines = [line[6:] for line in raw.splitlines() if line.startswith(b"data: {")]
    choices = [choice for line in lines for choice in orjson.loads(line)["choices"]]
    texts = [choice.get("text") or (choice.get("delta") or {}).get("content") for choice in choices]
    return [text for text in texts if text]


def text_of(body: bytes) -> str:
    choice = orjson.loads(body)["choices"][0]
    return str(choice["message"]["content"] if "message" in choice else choice["text"])
