"""One call of a scripted backend: what each kind of answer comes to. No network but in the last two tests."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import msgspec
import pytest

from headrace.contracts.failures import FailureKind
from headrace.contracts.outcomes import Verdict
from headrace.contracts.values import Failure
from headrace.inference_worker.adapters.backend_http import HttpBackend
from headrace.inference_worker.attempt_call import AttemptCall, CallLimits
from headrace.inference_worker.decisions.classify_failure import Broken
from headrace.inference_worker.decisions.how_to_call import BackendKind, CallPlan
from headrace.inference_worker.decisions.settle import StopReason, settle
from headrace.inference_worker.outcome import Outcome
from headrace.inference_worker.ports import BackendCall, BrokenCallError
from headrace.inference_worker.protocol.lease import Lease
from headrace.inference_worker.timings import Timings
from headrace.runtime.clock import ManualClock
from tests.unit.worker.scripted_world import run_of

MS = timedelta(milliseconds=1)
LIMITS = CallLimits(total=5000 * MS, stall=500 * MS, answer_bytes=2000)
TEXT = b'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}\n\n'
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"


@dataclass
class Script:
    """A backend that answers with these pieces, each after a pause."""

    pieces_to_come: list[bytes]
    status: int = 200
    content_type: str = "text/event-stream"
    retry_after: str | None = None
    pause: timedelta = timedelta()
    hangs: bool = False
    limits: dict[str, str] = field(default_factory=dict)
    relayed: list[tuple[bytes, int]] = field(default_factory=list)

    @asynccontextmanager
    async def open(self, _: BackendCall) -> AsyncIterator["Script"]:
        yield self

    async def alive(self) -> bool:
        return True

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        for piece in self.pieces_to_come:
            await asyncio.sleep(self.pause.total_seconds())
            yield piece
        if self.hangs:
            await asyncio.Event().wait()

    def goes_on_from_nothing(self) -> None:
        """As Relay.goes_on_from_nothing."""

    def add(self, raw: bytes, characters: int) -> None:
        self.relayed.append((raw, characters))


async def called(script: Script, *, streamed: bool = True, limits: CallLimits = LIMITS) -> Outcome:
    request = msgspec.structs.replace(run_of(1, boot="b").request, stream=streamed)
    plan = CallPlan(streamed=streamed, relayed=streamed)
    call = AttemptCall(
        request, b"{}", plan=plan, backend=script, clock=ManualClock(), limits=limits, relay=script
    )
    return await call.run()


def kind_of(outcome: Outcome) -> FailureKind | None:
    return outcome.failure.kind if outcome.failure else None


async def test_a_stream_of_garbage_content_type_split_anywhere_is_read() -> None:
    whole = TEXT + END + DONE
    script = Script(
        [whole[i : i + 7] for i in range(0, len(whole), 7)], content_type="application/x-nonsense"
    )
    outcome = await called(script)
    assert kind_of(outcome) is None
    assert msgspec.json.decode(outcome.body)["choices"][0]["message"] == {"content": "hi"}
    assert script.relayed == [(TEXT, 2), (END, 2)]


async def test_steady_events_keep_a_long_stream_alive_and_comments_do_not() -> None:
    steady = await called(Script([*[TEXT] * 6, END, DONE], pause=100 * MS))
    assert kind_of(steady) is None
    outcome = await called(Script([TEXT, *[b": keep-alive\n\n"] * 20], pause=100 * MS))
    assert (kind_of(outcome), outcome.partial) == (FailureKind.BACKEND_TIMEOUT, True)


async def test_a_backend_that_keeps_the_stream_open_after_done_has_answered() -> None:
    assert kind_of(await called(Script([TEXT, END, DONE], hangs=True))) is None


@pytest.mark.parametrize(
    ("pieces", "kind"),
    [
        ([], FailureKind.STREAM_BROKEN),
        ([TEXT, DONE], FailureKind.STREAM_BROKEN),
        ([TEXT, END[:-2]], FailureKind.STREAM_BROKEN),
        ([b"<html>Bad Gateway</html>"], FailureKind.STREAM_BROKEN),
        ([b"data: [1]\n\n"], FailureKind.STREAM_BROKEN),
        ([b"data: \xff\n\n"], FailureKind.STREAM_BROKEN),
        ([TEXT, b'data: {"error":{"message":"bad","code":400}}\n\n', DONE], FailureKind.INVALID_REQUEST),
        ([b'data: {"error":"text"}\n\n'], FailureKind.BACKEND_ERROR),
        ([b"data: " + b"x" * 3000], FailureKind.ANSWER_TOO_LARGE),
        ([TEXT.replace(b"hi", b"h" * 1500)] * 2, FailureKind.ANSWER_TOO_LARGE),
    ],
)
async def test_a_stream_that_is_no_whole_answer_fails_as_its_kind(
    pieces: list[bytes], kind: FailureKind
) -> None:
    assert kind_of(await called(Script(pieces))) is kind


@pytest.mark.parametrize(
    ("body", "content_type", "kind"),
    [
        (b'{"choices":[{"finish_reason":"stop"}]}', "application/json", None),
        (b'{"data":[[0.1]]}', "application/json; charset=utf-8", None),
        (b"\x00audio", "audio/mpeg", None),
        (b'{"choices":[{"finish_reason":"abort"}]}', "application/json", FailureKind.STREAM_BROKEN),
        (b'{"error":{"message":"EngineDeadError"}}', "application/json", FailureKind.ENGINE_DIED),
        (b'{"error":{"message":"no","code":400}}', "application/json", FailureKind.INVALID_REQUEST),
        (b'{"x":' + b"[" * 900 + b"]" * 900 + b"}", "application/json", None),
        (b"[" * 1000 + b"]" * 1000, "application/json", FailureKind.BACKEND_ERROR),
        (b"", "text/plain", FailureKind.BACKEND_ERROR),
        (b'{"choices":[', "application/json", FailureKind.BACKEND_ERROR),
        (b"<html>ok</html>", "text/html", FailureKind.BACKEND_ERROR),
        (b"x" * 2001, "audio/mpeg", FailureKind.ANSWER_TOO_LARGE),
    ],
)
async def test_a_plain_answer_is_kept_as_it_came_or_fails_as_its_kind(
    body: bytes, content_type: str, kind: FailureKind | None
) -> None:
    outcome = await called(Script([body], content_type=content_type), streamed=False)
    assert kind_of(outcome) is kind
    if kind is None:
        assert (outcome.body, outcome.content_type, outcome.http_status) == (body, content_type, 200)


async def test_a_status_that_http_does_not_know_is_an_error_that_every_record_takes() -> None:
    outcome = await called(Script([b"{}"], status=999, content_type="application/json"), streamed=False)
    assert outcome.failure == Failure(kind=FailureKind.BACKEND_ERROR, message=str(Broken.MALFORMED))


async def test_a_retry_after_of_any_length_is_read() -> None:
    script = Script([b"{}"], status=503, content_type="application/json", retry_after="9" * 5000)
    outcome = await called(script, streamed=False)
    assert outcome.failure is not None
    assert outcome.failure.retry_after_ms == 3_600_000


async def test_a_plain_answer_to_a_stream_is_still_an_answer() -> None:
    body = b'{"choices":[{"finish_reason":"stop"}],"usage":{"completion_tokens":3}}'
    outcome = await called(Script([body], content_type="application/json"))
    assert (outcome.body, outcome.usage.completion_tokens) == (body, 3)


async def test_a_call_without_end_takes_its_total_time_and_no_longer() -> None:
    script = Script([], hangs=True, content_type="application/json")
    outcome = await called(script, streamed=False, limits=CallLimits(total=100 * MS))
    assert kind_of(outcome) is FailureKind.BACKEND_TIMEOUT


def test_what_was_superseded_has_no_terminal_record_even_when_it_succeeded_meanwhile() -> None:
    for outcome in (Outcome(body=b"{}"), Outcome(aborted=True)):
        settled = settle(outcome, StopReason.SUPERSEDED, ManualClock().now())
        assert (settled.verdict, settled.status, settled.failure) == (Verdict.RETRY_AT, None, None)


def test_the_lease_counts_from_the_begin_of_an_acknowledged_report() -> None:
    clock = ManualClock()
    lease = Lease(Timings(), clock.now())
    number = lease.begin(clock.now())
    assert number is not None
    assert lease.begin(clock.advance(2000 * MS)) is None  # one at a time
    assert lease.written(number, acknowledged=True, now=clock.now())
    assert not lease.lapsed(clock.advance(500 * MS))
    assert lease.lapsed(clock.advance(1 * MS))


ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


@asynccontextmanager
async def _forgetful_server(answers: int) -> AsyncIterator[tuple[str, list[int]]]:
    """Answers so many requests on each connection, then closes it when the next one comes; says how many came on each."""
    seen: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(0)
        mine = len(seen) - 1
        while b"\r\n" in await reader.readuntil(b"\r\n\r\n"):
            await reader.readexactly(2)
            seen[mine] += 1
            if seen[mine] > answers:
                break
            writer.write(ANSWER)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", seen


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (b"application/json; charset=\xff\xfe", "application/json"),
        (b"text/plain; x=\xe2\x82\xac", "text/plain"),
        (b"\xff", ""),
        (b"application/json; charset=utf-8", "application/json; charset=utf-8"),
    ],
)
async def test_a_content_type_that_no_record_takes_is_cut(said: bytes, kept: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWER.replace(b"application/json", said))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        backend = _backend(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        async with backend.open(BackendCall("/x", b"{}", "application/json", False, {})) as reply:
            assert reply.content_type == kept
        await backend.close()


async def _post(backend: HttpBackend) -> bytes:
    async with backend.open(BackendCall("/x", b"{}", "application/json", False, {})) as reply:
        return b"".join([piece async for piece in reply.pieces()])


def _backend(url: str) -> HttpBackend:
    return HttpBackend(
        url, kind=BackendKind.VLLM, api_key=None, connect_within=1000 * MS, probe_within=1000 * MS
    )


async def test_a_request_that_met_a_closed_kept_alive_connection_is_repeated_once_on_a_fresh_one() -> None:
    async with _forgetful_server(answers=1) as (url, seen):
        backend = _backend(url)
        assert [await _post(backend), await _post(backend)] == [b"{}", b"{}"]
        assert seen == [2, 1]
        await backend.close()


async def test_a_request_that_broke_a_fresh_connection_is_not_repeated() -> None:
    async with _forgetful_server(answers=0) as (url, seen):
        backend = _backend(url)
        with pytest.raises(BrokenCallError) as broken:
            await _post(backend)
        assert (broken.value.how, seen) == (Broken.CUT_OFF, [1])
        await backend.close()
