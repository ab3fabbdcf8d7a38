"""Every door of the engine over HTTP: vLLM's answers, its batch seen from outside, its metrics."""

import asyncio
import struct
from base64 import b64decode
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from itertools import islice

import aiohttp
import pytest
from openai import AsyncOpenAI

from headrace.devkit.engine import TINY, FakeEngine
from headrace.devkit.engine.core import Admission
from headrace.devkit.engine.words import chat_text
from tests.support.engine_http import COMPLETIONS, EMBEDDINGS, chat, get, post
from tests.support.eventually import eventually_async

PACE = timedelta(milliseconds=20)
METRICS = (
    "num_requests_running", "num_requests_waiting", "num_requests_waiting_by_reason", "kv_cache_usage_perc",
    "engine_sleep_state", "cache_config_info", "prompt_tokens_total", "generation_tokens_total",
    "request_success_total", "num_preemptions_total", "prefix_cache_queries_total", "prefix_cache_hits_total",
    "prompt_tokens_cached_total", "admission_rejections_total", "corrupted_requests_total",
    "time_to_first_token_seconds", "inter_token_latency_seconds", "request_time_per_output_token_seconds",
    "e2e_request_latency_seconds", "request_queue_time_seconds", "request_prefill_time_seconds",
    "request_decode_time_seconds", "request_inference_time_seconds", "request_prompt_tokens",
    "request_generation_tokens", "request_params_max_tokens", "request_params_n", "iteration_tokens_total",
)  # fmt: skip


@pytest.fixture
async def http(fake_engine: FakeEngine) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(fake_engine.url) as session:
        yield session


async def test_small_doors(http: aiohttp.ClientSession) -> None:
    (model,) = (await get(http, "/v1/models")).json["data"]
    assert (model["id"], model["max_model_len"], model["owned_by"]) == ("fake", 32_768, "vllm")
    assert (await get(http, "/version")).json == {"version": "0.32.0"}
    for answer in (await get(http, "/health"), await get(http, "/ping"), await post(http, {}, "/ping")):
        assert (answer.status, answer.body) == (200, b"")
    assert (await get(http, "/load")).json == {"server_load": 0}
    assert (await get(http, "/v1/nothing")).status == (await post(http, {}, "/v1/nothing")).status == 404
    assert (await post(http, {}, "/sim/nothing")).status == 404


async def test_tokenize_counts_as_generation_does(http: aiohttp.ClientSession) -> None:
    asked = chat("some words to count, surely", max_tokens=1)
    counted = (await post(http, {**asked, "return_token_strs": True}, "/tokenize")).json
    used = (await post(http, asked)).json["usage"]["prompt_tokens"]
    assert counted["count"] == len(counted["tokens"]) == len(counted["token_strs"]) == used
    assert counted["max_model_len"] == 32_768
    prompt = (await post(http, {"model": "fake", "prompt": "a prompt"}, "/tokenize")).json
    assert (prompt["count"], prompt["token_strs"]) == (3, None)
    assert (await post(http, {"model": "fake", "prompt": 3}, "/tokenize")).status == 400


async def test_the_official_client_gets_the_same_embeddings_in_both_encodings(
    fake_engine: FakeEngine,
) -> None:
    texts = ["one text", "another"]
    async with AsyncOpenAI(base_url=f"{fake_engine.url}/v1", api_key="none") as client:
        answer = await client.embeddings.create(model="fake", input=texts, dimensions=8)
        floats = await client.embeddings.create(
            model="fake", input=texts, dimensions=8, encoding_format="float"
        )
    assert [one.index for one in answer.data] == [0, 1]
    for packed, plain in zip(answer.data, floats.data, strict=True):
        assert packed.embedding == pytest.approx(plain.embedding, rel=1e-6)
        assert sum(value * value for value in plain.embedding) == pytest.approx(1)
    assert answer.data[0].embedding != answer.data[1].embedding
    assert answer.usage.prompt_tokens == 3 + 2


async def test_embeddings_by_hand(http: aiohttp.ClientSession) -> None:
    asked = {"model": "fake", "input": [[1, 2, 3], [4]], "encoding_format": "base64"}
    (first, _) = (await post(http, asked, EMBEDDINGS)).json["data"]
    assert len(struct.unpack("<64f", b64decode(first["embedding"]))) == 64
    wrong: list[dict[str, object]] = [
        {"input": []},
        {"input": 3},
        {"input": ["a", [["b"]]]},
        {"input": "a", "dimensions": 0},
    ]
    for fields in wrong:
        assert (await post(http, {"model": "fake", **fields}, EMBEDDINGS)).status == 400
    assert (await post(http, {"model": "x", "input": "a"}, EMBEDDINGS)).status == 404


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_a_partial_answer_is_gone_on_with(http: aiohttp.ClientSession, stream: bool) -> None:
    whole = (await post(http, chat("go on", max_tokens=30))).text
    for cut in (0, 1, 20, len(whole) - 3):
        messages = [{"role": "user", "content": "go on"}, {"role": "assistant", "content": whole[:cut]}]
        body = {
            "model": "fake", "messages": messages, "continue_final_message": True, "add_generation_prompt": False,
            "max_tokens": 40, "stream": stream,
        }  # fmt: skip
        rest = (await post(http, body)).text
        assert (whole[:cut] + rest).startswith(whole)
    assert (await post(http, {**body, "add_generation_prompt": True})).status == 400


async def test_an_answer_without_a_limit_ends_where_it_would_have(http: aiohttp.ClientSession) -> None:
    whole = (await post(http, {"model": "fake", "prompt": "Say:"}, COMPLETIONS)).json
    text = whole["choices"][0]["text"]
    cut = text[: text.index(" ", len(text) // 2)]
    rest = (await post(http, {"model": "fake", "prompt": "Say:" + cut}, COMPLETIONS)).json
    assert cut + rest["choices"][0]["text"] == text
    assert rest["usage"]["total_tokens"] == whole["usage"]["total_tokens"]
    assert (await post(http, {"model": "fake", "prompt": "Say:" + text}, COMPLETIONS)).text == ""


async def test_seeds_make_other_texts_and_replicas_the_same(http: aiohttp.ClientSession) -> None:
    async with FakeEngine() as twin, FakeEngine(seed=3) as other:
        texts = [(await post(http, chat(seed=seed))).text for seed in (None, 1, 1, 2)]
        for engine, same in ((twin, True), (other, False)):
            async with aiohttp.ClientSession(engine.url) as session:
                assert ((await post(session, chat())).text == texts[0]) is same
    assert texts[1] == texts[2]
    assert len(set(texts)) == 3


async def test_lengths_by_hash_end_answers_before_their_limit() -> None:
    async with FakeEngine(lengths=(2, 40)) as engine, aiohttp.ClientSession(engine.url) as http:
        answers = [(await post(http, chat(f"{n}", max_tokens=20))).json for n in range(30)]
        forced = (await post(http, chat("0", max_tokens=20, ignore_eos=True))).json
        least = (await post(http, chat("0", min_tokens=60))).json
    ends = {(one["choices"][0]["finish_reason"], one["usage"]["completion_tokens"] == 20) for one in answers}
    assert ("length", True) in ends
    assert ("stop", False) in ends
    assert (forced["choices"][0]["finish_reason"], forced["usage"]["completion_tokens"]) == ("length", 20)
    assert least["usage"]["completion_tokens"] == 60


async def test_a_limit_beyond_the_context_is_cut_in_silence() -> None:
    async with FakeEngine(max_model_len=64) as engine, aiohttp.ClientSession(engine.url) as http:
        answer = (await post(http, chat("x" * 100, max_tokens=1000))).json
        refused = await post(http, chat("x" * 300))
    assert answer["usage"]["total_tokens"] == 64
    assert answer["choices"][0]["finish_reason"] == "length"
    assert (refused.status, refused.json["error"]["param"]) == (400, "input_tokens")


async def test_a_prompt_that_was_seen_before_is_cached_and_usage_says_so(http: aiohttp.ClientSession) -> None:
    asked = chat(
        "a long beginning that both share " * 20, stream=True, stream_options={"include_usage": True}
    )
    first, second = [(await post(http, asked)).events[-2]["usage"] for _ in range(2)]
    assert first["prompt_tokens_details"] is None
    assert second["prompt_tokens_details"]["cached_tokens"] == first["prompt_tokens"] // 16 * 16


async def test_priority_needs_its_policy_and_comes_first_with_it(http: aiohttp.ClientSession) -> None:
    assert (await post(http, chat(priority=1))).status == 400
    assert (await post(http, chat(), X_Vllm_Priority="no number")).status == 400
    assert (await post(http, chat(priority=0))).status == 200
    profile = replace(TINY, by_priority=True, max_num_seqs=1)
    async with FakeEngine(profile) as engine, aiohttp.ClientSession(engine.url) as session:
        ended: list[str] = []

        async def ask(name: str, priority: int, **headers: str) -> None:
            await post(session, chat(name, max_tokens=3, priority=priority), **headers)
            ended.append(name)

        holder = asyncio.ensure_future(ask("[[fault:hang]]", -9))
        await until_stats(engine, running=1)
        calls = [asyncio.ensure_future(ask("late", 5))]
        await until_stats(engine, waiting=1)
        calls.append(asyncio.ensure_future(ask("urgent", 5, X_Vllm_Priority="-1")))
        await until_stats(engine, waiting=2)
        holder.cancel()
        await asyncio.gather(*calls)
    assert ended == ["urgent", "late"]


async def until_stats(engine: FakeEngine, **counts: int) -> None:
    async def so() -> bool:
        stats = engine.stats
        return all(getattr(stats, name) == count for name, count in counts.items())

    await eventually_async(so, f"{counts}")


@pytest.mark.parametrize(("status", "kind"), [(503, "Service Unavailable"), (429, "Too Many Requests")])
async def test_a_full_queue_refuses(status: int, kind: str) -> None:
    admission = Admission(most_waiting=1, status=status, retry_after_s=4)
    async with (
        FakeEngine(slots=1, admission=admission) as engine,
        aiohttp.ClientSession(engine.url) as http,
    ):
        calls = [asyncio.ensure_future(post(http, chat("[[fault:hang]]")))]
        await until_stats(engine, running=1)
        calls.append(asyncio.ensure_future(post(http, chat("waits"))))
        await until_stats(engine, waiting=1)
        refused = await post(http, chat("too many"))
        assert (refused.status, refused.json["error"]["type"]) == (status, kind)
        assert refused.headers["Retry-After"] == "4"
        assert 'reason="max_num_queued_reqs"} 1' in (await get(http, "/metrics")).body.decode()
        calls[0].cancel()
        assert (await calls[1]).status == 200


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_a_caller_who_leaves_frees_the_blocks(stream: bool) -> None:
    async with FakeEngine(TINY.paced(PACE)) as engine:
        async with aiohttp.ClientSession(engine.url) as http:
            call = asyncio.ensure_future(post(http, chat("x" * 4000, max_tokens=500, stream=stream)))
            await until_stats(engine, running=1)
            assert engine.stats.kv_blocks_used > 0
            assert (await get(http, "/load")).json == {"server_load": 1}
            call.cancel()
        await until_stats(engine, running=0, kv_blocks_used=0, aborted=1)
        stats = engine.stats
        assert stats.wasted_tokens + stats.aborted_tokens == 500
        assert stats.aborted_tokens > 0


async def test_an_engine_that_notices_no_leaver_of_a_plain_call_works_to_the_end() -> None:
    async with FakeEngine(TINY.paced(timedelta(milliseconds=50)), plain_unnoticed=True) as engine:
        async with aiohttp.ClientSession(engine.url) as http:
            plain = asyncio.ensure_future(post(http, chat("plain", max_tokens=40)))
            await until_stats(engine, running=1)
            plain.cancel()
        await until_stats(engine, running=0, aborted=1, generated_tokens=40, wasted_tokens=40)


async def test_twenty_requests_queue_and_preempt_in_a_tiny_engine_and_all_get_their_text() -> None:
    profile = replace(TINY, kv_blocks=48, max_model_len=768)
    async with FakeEngine(profile, scale=0.25) as engine, aiohttp.ClientSession(engine.url) as http:
        asked = [chat(f"{n} " + "words " * 40, max_tokens=120, stream=n % 2 == 0) for n in range(20)]
        answers = await asyncio.gather(*(post(http, one) for one in asked))
        stats = engine.stats
    assert [answer.status for answer in answers] == [200] * 20
    for body, answer in zip(asked, answers, strict=True):
        assert answer.text == "".join(islice(chat_text(f"user: {body['messages'][0]['content']}").rest, 120))
    assert stats.most_running == 8
    assert stats.preemptions > 0
    assert stats.recomputed_tokens > 0
    assert (stats.completed, stats.generated_tokens) == (20, 20 * 120)


async def test_metrics_have_vllms_names_and_count(http: aiohttp.ClientSession) -> None:
    await post(http, chat("counted", max_tokens=5))
    await post(http, chat("to its end", stream=True))
    page = (await get(http, "/metrics")).body.decode()
    for name in METRICS:
        assert f"# TYPE vllm:{name} " in page, name
    labels = 'engine="0",model_name="fake"'
    for line in (
        f'vllm:request_success_total{{{labels},finished_reason="length"}} 1',
        f'vllm:request_success_total{{{labels},finished_reason="stop"}} 1',
        f"vllm:generation_tokens_total{{{labels}}} 21",
        f"vllm:time_to_first_token_seconds_count{{{labels}}} 2",
        f"vllm:inter_token_latency_seconds_count{{{labels}}} 19",
        f'vllm:request_generation_tokens_bucket{{{labels},le="5.0"}} 1',
        f'vllm:request_generation_tokens_bucket{{{labels},le="+Inf"}} 2',
        f"vllm:num_requests_running{{{labels}}} 0",
    ):
        assert line in page.splitlines(), line


async def test_time_is_the_models_times_the_scale() -> None:
    profile = TINY.paced(timedelta(seconds=1))
    async with FakeEngine(profile, scale=50) as engine, aiohttp.ClientSession(engine.url) as http:
        begun = asyncio.get_running_loop().time()
        await post(http, chat(max_tokens=10))
        took = asyncio.get_running_loop().time() - begun
        page = (await get(http, "/metrics")).body.decode()
    assert took >= 0.19
    assert 'time_to_first_token_seconds_bucket{engine="0",model_name="fake",le="0.75"} 0' in page
    assert 'inter_token_latency_seconds_bucket{engine="0",model_name="fake",le="0.75"} 0' in page
