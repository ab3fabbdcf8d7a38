"""The one failure table: every way an attempt or a request can fail, and what follows from it.

Called by the worker (classifies what a backend did), the scheduler (retry or end) and ingest (the HTTP face).
A new backend maps its errors to a kind and to nothing else; a new rule is a column here.
"""

from dataclasses import dataclass
from enum import StrEnum


class Fault(StrEnum):
    """Whose fault a failure is: decides what an operator is shown and what counts against whom."""

    CALLER = "caller"
    BACKEND = "backend"
    HEADRACE = "headrace"
    NOBODY = "nobody"


class FailureKind(StrEnum):
    """A closed set: what went wrong, as the public API names it in `code`."""

    BACKEND_OVERLOADED = "backend_overloaded"
    BACKEND_UNAVAILABLE = "backend_unavailable"
    BACKEND_ERROR = "backend_error"
    BACKEND_TIMEOUT = "backend_timeout"
    BACKEND_REFUSES_US = "backend_refuses_us"
    STREAM_BROKEN = "stream_broken"
    ENGINE_DIED = "engine_died"
    WORKER_DIED = "worker_died"
    WORKER_DRAINED = "worker_drained"
    WORKER_NOT_LEASED = "worker_not_leased"
    PREEMPTED = "preempted"
    INVALID_REQUEST = "invalid_request"
    CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
    MODEL_NOT_FOUND = "model_not_found"
    NOT_IMPLEMENTED = "not_implemented"
    QUOTA_EXHAUSTED = "quota_exhausted"
    ANSWER_TOO_LARGE = "answer_too_large"
    QUEUE_TIMEOUT = "queue_timeout"
    DEADLINE_PASSED = "deadline_passed"
    DEADLINE_INFEASIBLE = "deadline_infeasible"
    CANCELLED_BY_CALLER = "cancelled_by_caller"
    CANCELLED_BY_OPERATOR = "cancelled_by_operator"
    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    KILLED_WORKERS = "killed_workers"
    UNDECODABLE = "undecodable"
    EMPTY_RECORD = "empty_record"
    OUT_OF_BOUNDS = "out_of_bounds"
    LYING_RECORD = "lying_record"
    LYING_ATTEMPT = "lying_attempt"
    ATTEMPT_BACKWARDS = "attempt_backwards"
    FOREIGN_TENANT = "foreign_tenant"
    LYING_REPORT = "lying_report"
    UNKNOWN_POOL = "unknown_pool"


@dataclass(frozen=True, slots=True)
class FailureRule:
    """What follows from a kind of failure.

    retryable: another attempt may succeed. uses_attempt: it counts against the request's attempts (an outage doesn't).
    suspect: the request may be what killed the worker or engine. http_status and openai_type: the face of a request that
    ends with this kind, when the backend's own answer isn't relayed.
    """

    fault: Fault
    retryable: bool
    uses_attempt: bool
    suspect: bool
    http_status: int
    openai_type: str
    sentence: str


def _backend(status: int, sentence: str, *, uses_attempt: bool = True, suspect: bool = False) -> FailureRule:
    return FailureRule(Fault.BACKEND, True, uses_attempt, suspect, status, "server_error", sentence)


def _final(fault: Fault, status: int, openai_type: str, sentence: str) -> FailureRule:
    return FailureRule(fault, False, True, False, status, openai_type, sentence)


def _ours(sentence: str) -> FailureRule:
    return FailureRule(Fault.HEADRACE, True, False, False, 503, "server_error", sentence)


def _log(sentence: str) -> FailureRule:
    return _final(Fault.HEADRACE, 500, "server_error", sentence)


_K = FailureKind
FAILURES: dict[FailureKind, FailureRule] = {
    _K.BACKEND_OVERLOADED: _backend(503, "The backend has no room just now.", uses_attempt=False),
    _K.BACKEND_UNAVAILABLE: _backend(503, "The backend can't be reached.", uses_attempt=False),
    _K.BACKEND_ERROR: _backend(502, "The backend answered with an error."),
    _K.BACKEND_TIMEOUT: _backend(504, "The backend didn't answer in time."),
    _K.BACKEND_REFUSES_US: _backend(502, "The backend refuses our credentials.", uses_attempt=False),
    _K.STREAM_BROKEN: _backend(502, "The backend's answer broke off."),
    _K.ENGINE_DIED: _backend(502, "The engine died while it held this request.", suspect=True),
    _K.WORKER_DIED: FailureRule(
        Fault.HEADRACE, True, True, True, 502, "server_error", "The worker died while it held this request."
    ),
    _K.WORKER_DRAINED: _ours("The worker was drained and handed the request back."),
    _K.WORKER_NOT_LEASED: _ours("The worker had lost touch and handed the request back unstarted."),
    _K.PREEMPTED: _ours(
        "The request gave its slot to a more urgent tier, or its place in a cache that was too small."
    ),
    _K.INVALID_REQUEST: _final(
        Fault.CALLER, 400, "invalid_request_error", "The backend finds the request invalid."
    ),
    _K.CONTEXT_LENGTH_EXCEEDED: _final(
        Fault.CALLER, 400, "invalid_request_error", "The prompt is longer than the model's context."
    ),
    _K.MODEL_NOT_FOUND: _final(
        Fault.BACKEND, 404, "invalid_request_error", "The backend doesn't serve this model."
    ),
    _K.NOT_IMPLEMENTED: _final(
        Fault.BACKEND, 501, "invalid_request_error", "The backend doesn't offer this route."
    ),
    _K.QUOTA_EXHAUSTED: _final(
        Fault.BACKEND, 429, "insufficient_quota", "The backend's quota is used up; waiting doesn't help."
    ),
    _K.ANSWER_TOO_LARGE: _final(
        Fault.BACKEND, 502, "server_error", "The backend's answer is larger than may be stored."
    ),
    _K.QUEUE_TIMEOUT: _final(
        Fault.NOBODY, 504, "server_error", "The request waited longer than its queue timeout."
    ),
    _K.DEADLINE_PASSED: _final(Fault.NOBODY, 504, "server_error", "The request's deadline passed."),
    _K.DEADLINE_INFEASIBLE: _final(
        Fault.NOBODY, 504, "server_error", "The request could no longer be answered by its deadline."
    ),
    _K.CANCELLED_BY_CALLER: _final(
        Fault.CALLER, 499, "invalid_request_error", "The request was cancelled by its caller."
    ),
    # not a 5xx: clients send those again by themselves
    _K.CANCELLED_BY_OPERATOR: _final(
        Fault.HEADRACE, 499, "server_error", "The request was cancelled by an operator of headrace."
    ),
    _K.ATTEMPTS_EXHAUSTED: _final(
        Fault.BACKEND, 502, "server_error", "Every attempt that the request may use has failed."
    ),
    # not a 5xx: clients send those again by themselves
    _K.KILLED_WORKERS: _final(
        Fault.BACKEND,
        422,
        "invalid_request_error",
        "The worker or engine that ran it died each time, also when it ran nothing else.",
    ),
    _K.UNDECODABLE: _final(Fault.CALLER, 400, "invalid_request_error", "The record can't be decoded."),
    _K.EMPTY_RECORD: _final(Fault.CALLER, 400, "invalid_request_error", "The record has no value."),
    _K.OUT_OF_BOUNDS: _final(
        Fault.CALLER,
        400,
        "invalid_request_error",
        "A value of the record is impossible: a negative count, or an instant outside of 2020 to 2100.",
    ),
    _K.LYING_RECORD: _final(
        Fault.CALLER, 400, "invalid_request_error", "The record's header contradicts itself or its place."
    ),
    _K.LYING_ATTEMPT: _log(
        "The attempt record contradicts itself, its place or what its owner has released."
    ),
    _K.ATTEMPT_BACKWARDS: _log("The attempt record counts fewer tries than its request has had before."),
    _K.FOREIGN_TENANT: _log("The record names a tenant that isn't its request's."),
    _K.LYING_REPORT: _log("The worker's report says what can't be true."),
    _K.UNKNOWN_POOL: _final(
        Fault.CALLER,
        404,
        "invalid_request_error",
        "The record names a pool that its topic isn't of.",
    ),
}


def rule_of(kind: FailureKind) -> FailureRule:
    """The row of a kind."""
    return FAILURES[kind]
