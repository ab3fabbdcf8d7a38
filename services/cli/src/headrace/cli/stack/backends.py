"""What answers in a development stack: the real model, the fake engine, or a backend of the developer's own.

Called by `headrace dev up`. Invariant: what was started here is stopped when the context is left.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from headrace.cli.stack.plan import Backend, policy_for
from headrace.cli.trouble import Trouble
from headrace.devkit.engine import FakeEngine
from headrace.devkit.model import ALIAS, ModelServer
from headrace.devkit.served import EngineProcess

POOL, TENANT, ENGINE_MODEL = "main", "dev", "fake"
ENGINE_LIMIT = 32


class Kind(StrEnum):
    """How a backend of one's own is spoken to."""

    VLLM = "vllm"
    LLAMA = "llama.cpp"
    OPENAI = "openai"


class Served(StrEnum):
    """What answers."""

    MODEL = "model"
    ENGINE = "engine"
    OWN = "own"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a developer asked for. `url`, `kind` and `name` are of a backend of their own."""

    served: Served
    url: str = ""
    kind: Kind = Kind.OPENAI
    name: str = "default"

    @property
    def model(self) -> str:
        """The name that callers ask for."""
        return {Served.MODEL: ALIAS, Served.ENGINE: ENGINE_MODEL, Served.OWN: self.name}[self.served]

    @property
    def policy(self) -> str:
        """A policy with one tenant and one pool that serves it."""
        return policy_for({TENANT: 1}, {POOL: {self.model: self.model}})

    @property
    def own(self) -> Backend:
        """The backend of their own."""
        return Backend(POOL, self.url, self.kind, ENGINE_LIMIT)


def chosen(url: str | None, *, model: bool, engine: bool, by_default: Served) -> Served:
    """What answers, from the options. Raises Trouble when they contradict each other."""
    if (url is not None) + model + engine > 1:
        raise Trouble("--backend, --model and --engine exclude each other: give one of them")
    if url is not None:
        return Served.OWN
    if model or engine:
        return Served.MODEL if model else Served.ENGINE
    return by_default


@contextmanager
def serving(wanted: Wanted, logs: Path) -> Iterator[Backend]:
    """Starts it as a child process where it isn't the developer's own."""
    if wanted.served is Served.OWN:
        yield wanted.own
    elif wanted.served is Served.MODEL:
        with ModelServer(log_path=logs / "model.log") as model:
            yield Backend(POOL, model.url, Kind.LLAMA, model.slots)
    else:
        with EngineProcess(log_path=logs / "engine.log") as engine:
            yield Backend(POOL, engine.url, Kind.VLLM, ENGINE_LIMIT)


@asynccontextmanager
async def serving_here(wanted: Wanted, logs: Path) -> AsyncIterator[Backend]:
    """As `serving`, but the fake engine runs on this event loop, so that no process is started for it."""
    if wanted.served is Served.ENGINE:
        async with FakeEngine(models=(ENGINE_MODEL,)) as engine:
            yield Backend(POOL, engine.url, Kind.VLLM, ENGINE_LIMIT)
    else:
        with serving(wanted, logs) as backend:
            yield backend
