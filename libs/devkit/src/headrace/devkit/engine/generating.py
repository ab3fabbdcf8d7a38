"""From a POST to its answer: fault, reading, a place in the batch, the bytes. Called by server.

Invariant: whatever way a call is left, its sequence isn't in the batch afterwards.
"""

import asyncio
import time
from collections.abc import Callable

from aiohttp import web

from headrace.devkit.engine.answering import Answering, reply, stall_of
from headrace.devkit.engine.asks import read_ask
from headrace.devkit.engine.core import Core
from headrace.devkit.engine.embeddings import read_embedding_ask
from headrace.devkit.engine.faults import Fault
from headrace.devkit.engine.journal import Exchange
from headrace.devkit.engine.live import EngineDead, Generation
from headrace.devkit.engine.refusals import EngineRefusal, dead
from headrace.devkit.engine.tokenizing import tokenized
from headrace.devkit.engine.wire import EngineAnswer

CHAT, COMPLETIONS, EMBEDDINGS, TOKENIZE = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/tokenize",
)
GENERATING = frozenset({CHAT, COMPLETIONS})
LEFT = (asyncio.CancelledError, ConnectionResetError)


class Generating:
    """Answers POSTs. `plain_unnoticed`: a caller who leaves a plain call isn't noticed, as with llama.cpp."""

    def __init__(self, core: Core, die: Callable[[], None], *, plain_unnoticed: bool) -> None:
        self._core, self._die, self._plain_unnoticed = core, die, plain_unnoticed
        self._answers = 0

    async def answer(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        """Raises EngineRefusal."""
        if not self._core.alive:
            raise dead()
        if exchange.path in GENERATING:
            return await self._generated(request, exchange)
        if exchange.path == EMBEDDINGS:
            return await self._embedded(request, exchange)
        if exchange.path == TOKENIZE:
            return reply(exchange, 200, tokenized(exchange.request, self._core.reading))
        raise EngineRefusal(404, "NotFoundError", "Not Found")

    async def _generated(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        wanted, chat = self._wanted(request, exchange), exchange.path == CHAT
        priority = request.headers.get("X-Vllm-Priority")
        ask = read_ask(exchange.request, self._core.reading, chat=chat, priority=priority)
        fault = self._due(ask.text.prompt, wanted, ask.model) if wanted else None
        sequence = ask.sequence()
        if fault:
            sequence.hold_back(self._core.pace_us(fault), stall_of(fault, stream=ask.stream))
        generation = self._core.admit(sequence, whole=not ask.stream)
        exchange.limits = self._core.limits()
        answer = EngineAnswer(
            ask, f"{'chatcmpl' if chat else 'cmpl'}-{self._name(request)}", int(time.time())
        )
        making = Answering(request, exchange, answer, generation, fault=fault, die=self._die)
        try:
            response = await (making.stream if ask.stream else making.plain)()
        except LEFT:
            if exchange.ended:
                self._core.drop(generation)
            else:
                self._core.left(ask, generation, unnoticed=self._plain_unnoticed and not ask.stream)
            raise
        except BaseException:
            self._core.drop(generation)
            raise
        self._core.drop(generation)
        self._core.metrics.finished["error" if exchange.ended else ask.finish_reason] += 1
        return response

    async def _embedded(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        wanted = self._wanted(request, exchange)
        ask = read_embedding_ask(exchange.request, self._core.reading)
        fault = self._due("\n".join(ask.texts), wanted, ask.model)
        stall = stall_of(fault, stream=False)
        inside: list[Generation] = []
        try:
            for sequence in ask.sequences():
                sequence.hold_back(0, stall)
                inside.append(self._core.admit(sequence, whole=True))
            exchange.limits = self._core.limits()
            for generation in inside:
                await generation.reached(1)
        except EngineDead as death:
            raise dead() from death
        finally:
            for generation in inside:
                self._core.drop(generation)
        self._core.metrics.finished["stop"] += 1
        return reply(exchange, 200, ask.body(self._name(request), int(time.time())))

    def _wanted(self, request: web.BaseRequest, exchange: Exchange) -> Fault | None:
        return self._core.wanted_fault(request.headers.get("X-Fault"), exchange.number, exchange.request)

    def _due(self, prompt: str, wanted: Fault | None, model: str) -> Fault | None:
        """The fault to be made, unless it is an answer by itself. Raises EngineRefusal."""
        fault = self._core.due(prompt, wanted)
        if fault is None:
            return None
        if fault.kind == "dead":
            self._core.kill(fault.number)
            raise dead()
        if refusal := fault.refusal(model, self._core.reading.max_model_len):
            raise refusal
        return fault

    def _name(self, request: web.BaseRequest) -> str:
        self._answers += 1
        return request.headers.get("X-Request-Id") or f"{self._answers:032x}"
