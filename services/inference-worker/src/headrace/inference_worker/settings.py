"""What the worker is told at start. Loaded by `__main__.py` and by whoever runs all services in one process."""

from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, SecretStr

from headrace.contracts.durations import parse
from headrace.contracts.reports import MOST_PER_MINUTE, PerMinute
from headrace.contracts.topics import MAX_PAYLOAD_BYTES
from headrace.inference_worker.attempt_call import CallLimits
from headrace.inference_worker.decisions.how_to_call import BackendKind
from headrace.inference_worker.timings import Timings
from headrace.runtime.durations import PositiveDuration
from headrace.runtime.settings import ServiceSettings


def _http_url(text: str) -> str:
    if not text.startswith(("http://", "https://")) or len(text.split("//", 1)[1]) == 0:
        raise ValueError("expected a URL such as http://127.0.0.1:8000")
    return text.rstrip("/")


class WorkerSettings(ServiceSettings):
    """One worker serves one pool with one backend."""

    service: ClassVar[str] = "inference_worker"

    pool: str = Field(
        min_length=1, max_length=32, description="the pool of the policy that this worker serves"
    )
    backend_url: Annotated[str, AfterValidator(_http_url)] = Field(
        description="the backend's address without /v1, such as http://127.0.0.1:8000"
    )
    backend_kind: BackendKind = Field(
        BackendKind.VLLM, description="whose wire the backend speaks: vllm, llama.cpp or openai"
    )
    backend_api_key: SecretStr | None = Field(None, description="sent to the backend as a bearer token")
    resume: bool = Field(
        True,
        description="go on with the text of an answer that was stopped for a more urgent tier or by a drain; false for a "
        "backend that doesn't know continue_final_message and takes the text for a message that has ended",
    )
    limit: int = Field(4, ge=1, le=10_000, description="how many requests the backend is given at a time")
    requests_per_minute: int | None = Field(
        None,
        ge=1,
        le=MOST_PER_MINUTE,
        description="how many requests the backend takes in a minute, such as a hosted API's own limit; default: any number",
    )
    tokens_per_minute: int | None = Field(
        None,
        ge=1,
        le=MOST_PER_MINUTE,
        description="how many tokens of prompts and answers it takes in a minute; default: any number",
    )
    drain_grace: PositiveDuration = Field(
        parse("25s"),
        description="how long a stopping worker lets running requests go on before it hands them back",
    )
    call_timeout: PositiveDuration = Field(
        parse("10m"),
        description="longest time of one backend call, where the request has no earlier deadline",
    )
    stall_timeout: PositiveDuration = Field(
        parse("2m"), description="longest time between two events of a stream, the first one included"
    )
    connect_timeout: PositiveDuration = Field(
        parse("5s"), description="longest time to open a connection to the backend, and of a health probe"
    )
    answer_max_bytes: int = Field(
        MAX_PAYLOAD_BYTES, ge=1024, le=MAX_PAYLOAD_BYTES, description="largest answer that is stored"
    )

    def timings(self) -> Timings:
        """The protocol's timings with this worker's grace."""
        return Timings(drain_grace=self.drain_grace)

    def per_minute(self) -> PerMinute | None:
        """What the backend takes in a minute; None: as much as it can work on."""
        if self.requests_per_minute is None and self.tokens_per_minute is None:
            return None
        return PerMinute(requests=self.requests_per_minute, tokens=self.tokens_per_minute)

    def limits(self) -> CallLimits:
        """What bounds a call."""
        return CallLimits(self.call_timeout, self.stall_timeout, self.answer_max_bytes)
