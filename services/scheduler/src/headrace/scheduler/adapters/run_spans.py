"""Continues a request's trace at its release: the span of the scheduler's part of the work. Given to pool_loop by wiring.

Invariant: where nobody collects traces the caller's headers go on unchanged, at no cost.
"""

from datetime import timedelta

from msgspec import structs

from headrace.bus.messages import Headers, Message
from headrace.contracts.codec import TRACE_HEADERS, find_header
from headrace.runtime.tracing import Tracing, parse_traceparent, traceparent_of
from headrace.scheduler.core.step import Send

_PARENT, _STATE = TRACE_HEADERS


class RunSpans:
    """As ports.RunTracing. `collected`: somebody collects traces."""

    def __init__(self, tracing: Tracing, *, collected: bool) -> None:
        self._tracing, self._collected = tracing, collected

    def continued(self, send: Send) -> Message:
        """As RunTracing.continued."""
        if not self._collected:
            return send.message
        headers = send.message.headers
        parent = parse_traceparent(find_header(headers, _PARENT), find_header(headers, _STATE))
        waited = timedelta(milliseconds=send.waited_ms or 0)
        with self._tracing.process(send.message.topic, parent, waited) as span:
            here = traceparent_of(span)
        return (
            send.message
            if here is None
            else structs.replace(send.message, headers=_with_parent(headers, here))
        )


def _with_parent(headers: Headers, traceparent: str) -> Headers:
    kept = tuple(header for header in headers if header[0] != _PARENT)
    return (*kept, (_PARENT, traceparent.encode()))
