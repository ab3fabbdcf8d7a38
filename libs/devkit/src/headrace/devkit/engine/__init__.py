"""A fast fake LLM engine with vLLM's wire shapes: deterministic text, faults on request, a journal of bytes.

In an async test: `async with FakeEngine() as engine: … engine.url`. As a child: devkit.served.EngineProcess, or
`python -m headrace.devkit.engine --port 8001`. It has no batching, prefill or KV model: answers come at once,
or at a fixed pace per token.
"""

from headrace.devkit.engine.journal import Exchange, Journal
from headrace.devkit.engine.server import FakeEngine

__all__ = ["Exchange", "FakeEngine", "Journal"]
