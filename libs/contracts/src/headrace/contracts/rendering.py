"""Renders schemas/ from the contracts: `{path under schemas/: text}`. Called by `headrace dev schemas` and the drift test.

Pure and stable: the same contracts give the same bytes, so that a change of the wire shows as a change of these files.
Invariant: what is rendered describes what the codec decodes; unknown fields stay allowed, as the codec ignores them.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from headrace.contracts.codec import HEADER, RECORDS
from headrace.contracts.failures import FAILURES
from headrace.contracts.lifecycle import MOVES, Status, is_terminal
from headrace.contracts.topics import (
    DEFAULT_PREFIX,
    MAX_INLINE_BYTES,
    MAX_PAYLOAD_BYTES,
    TOPICS,
    TopicKind,
    TopicRule,
)

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def render() -> dict[str, str]:
    """Every file of schemas/ that comes from the contracts alone; each text ends with a newline."""
    files = {
        "topics.json": _topics(),
        "lifecycle.json": _lifecycle(),
        "failures.json": _failures(),
        **{f"messages/{file_stem(kind)}.schema.json": _message(kind) for kind in RECORDS},
    }
    return {path: _text(files[path]) for path in sorted(files)}


def file_stem(kind: TopicKind) -> str:
    """A topic kind as a file's or folder's name: `requests.{pool}.{tier}` is `requests`."""
    return kind.value.partition(".")[0]


def record_types(kind: TopicKind) -> dict[str, type[msgspec.Struct]]:
    """The records that stand in topics of this kind, by their tag (the field `type` of the header)."""
    record = RECORDS[kind]
    types: Iterable[type[msgspec.Struct]] = getattr(record, "__args__", None) or (record,)
    return {str(each.__struct_config__.tag): each for each in types}


def _message(kind: TopicKind) -> dict[str, Any]:
    """The schema of the header; its definitions are named and sorted by msgspec, so they are stable."""
    schema = msgspec.json.schema(RECORDS[kind])
    title = f"the `{HEADER}` header of {kind.value}"
    return {"$schema": DIALECT, "title": title, "description": TOPICS[kind].holds, **schema}


def _topics() -> dict[str, Any]:
    return {
        "prefix": DEFAULT_PREFIX,
        "max_inline_bytes": MAX_INLINE_BYTES,
        "max_payload_bytes": MAX_PAYLOAD_BYTES,
        "topics": {rule.kind.value: _topic(rule) for rule in TOPICS.values()},
    }


def _topic(rule: TopicRule) -> dict[str, Any]:
    """Retention is in seconds; null: never by time."""
    return {
        "holds": rule.holds,
        "partitioned_by": rule.partitioned_by,
        "written_by": sorted(rule.written_by),
        "read_by": sorted(rule.read_by),
        "retention_seconds": None if rule.retention is None else int(rule.retention.total_seconds()),
        "compacted": rule.compacted,
        "max_message_bytes": rule.max_message_bytes,
    }


def _lifecycle() -> dict[str, Any]:
    """States in the order of a request's life, and the states that each may move to."""
    order = list(Status)
    return {
        "first": Status.QUEUED,
        "terminal": [status for status in order if is_terminal(status)],
        "moves": {status: sorted(MOVES[status], key=order.index) for status in order},
    }


def _failures() -> dict[str, Any]:
    return {kind.value: rule for kind, rule in FAILURES.items()}


def _text(document: dict[str, Any]) -> str:
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"
