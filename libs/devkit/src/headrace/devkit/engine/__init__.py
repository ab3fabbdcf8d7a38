"""An LLM engine without the model, for development, tests and drills: vLLM's doors, batching and failures.

    latency, profiles     how long a step takes, what fits
    blocks, sequences, waiting, stepper     the pure core: KV cache, one request, one step at a time in virtual time
    live                  the step loop in real time
    words, asks, wire     text that is a function of the prompt; requests and answers in vLLM's shapes
    faults, fault_plan    what goes wrong, on request or by plan
    core, generating, answering, pages, server     the HTTP side

In an async test: `async with FakeEngine() as engine: … engine.url`. As a child: devkit.served.EngineProcess; by hand:
`headrace dev engine`. Simulations drive `Stepper(TINY)` themselves.
"""

from headrace.devkit.engine.journal import Exchange, Journal
from headrace.devkit.engine.profiles import H100, INSTANT, PROFILES, TINY, Profile
from headrace.devkit.engine.sequences import Sequence
from headrace.devkit.engine.server import FakeEngine
from headrace.devkit.engine.stepper import Step, Stepper

__all__ = [
    "H100",
    "INSTANT",
    "PROFILES",
    "TINY",
    "Exchange",
    "FakeEngine",
    "Journal",
    "Profile",
    "Sequence",
    "Step",
    "Stepper",
]
