"""The tables as this version writes them. Used by the store; the migrations must lead here, and a test says so.

`results`: the one result of each request. `requests`: what was accepted, without its payload. `ledger`: one row for each
finished attempt (request id, attempt_epoch, attempt_sequence, pool), with what it used. `positions`: how far each log is
committed, and of which topic that is said. `outbox`: what is to be sent. Invariant: `results.id` is unique, which is what
makes one result of a request; so is an attempt in `ledger`; `outbox.sequence` is never used twice.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
)

METADATA = MetaData()

RESULTS = Table(
    "results",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("pool", Text, nullable=False),
    Column("tier", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("http_status", Integer, nullable=False),
    Column("model", Text, nullable=False),
    Column("route", Text, nullable=False),
    Column("stream", Boolean, nullable=False),
    Column("partial", Boolean, nullable=False),
    Column("attempts", BigInteger, nullable=False),
    Column("attempt_epoch", BigInteger, nullable=False),
    Column("attempt_sequence", BigInteger, nullable=False),
    Column("gateway", Integer, nullable=False),
    Column("worker", Text),
    Column("failure_kind", Text),
    Column("failure_message", Text),
    Column("prompt_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("completion_tokens", BigInteger, nullable=False),
    Column("usage_estimated", Boolean, nullable=False),
    Column("accepted_ms", BigInteger, nullable=False),
    Column("dispatched_ms", BigInteger),
    Column("started_ms", BigInteger),
    Column("first_token_ms", BigInteger),
    Column("finished_ms", BigInteger),
    Column("committed_ms", BigInteger, nullable=False),
    Column("content_type", Text, nullable=False),
    Column("encoding", Text, nullable=False),
    Column("reference", Text),
    Column("body", LargeBinary, nullable=False),
    Index("results_committed_ms", "committed_ms"),
)

POSITIONS = Table(
    "positions",
    METADATA,
    Column("topic", Text, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("next_offset", BigInteger, nullable=False),
    Column("topic_id", Text),
    PrimaryKeyConstraint("topic", "partition"),
)

REQUESTS = Table(
    "requests",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("pool", Text, nullable=False),
    Column("tier", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("route", Text, nullable=False),
    Column("stream", Boolean, nullable=False),
    Column("accepted_ms", BigInteger, nullable=False),
    Column("origin_topic", Text, nullable=False),
    Column("origin_partition", Integer, nullable=False),
    Column("origin_offset", BigInteger, nullable=False),
    Column("hop", Integer, nullable=False, server_default="0"),
    sqlite_with_rowid=False,
)

LEDGER = Table(
    "ledger",
    METADATA,
    Column("id", Text, nullable=False),
    Column("attempt_epoch", BigInteger, nullable=False),
    Column("attempt_sequence", BigInteger, nullable=False),
    Column("attempts", BigInteger, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("tier", Text, nullable=False),
    Column("pool", Text, nullable=False),
    Column("model", Text),
    Column("verdict", Text, nullable=False),
    Column("status", Text),
    Column("failure_kind", Text),
    Column("started", Boolean, nullable=False),
    Column("charge", BigInteger, nullable=False),
    Column("prompt_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("completion_tokens", BigInteger, nullable=False),
    Column("usage_estimated", Boolean, nullable=False),
    Column("dispatched_ms", BigInteger),
    Column("started_ms", BigInteger),
    Column("first_token_ms", BigInteger),
    Column("finished_ms", BigInteger),
    Column("worker", Text),
    Column("boot", Text),
    Column("committed_ms", BigInteger, nullable=False),
    PrimaryKeyConstraint("id", "attempt_epoch", "attempt_sequence", "pool"),
    sqlite_with_rowid=False,
)

OUTBOX = Table(
    "outbox",
    METADATA,
    Column("sequence", BigInteger().with_variant(Integer, "sqlite"), Identity(), primary_key=True),
    Column("topic", Text, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("record_key", LargeBinary),
    Column("headers", LargeBinary, nullable=False),
    Column("value", LargeBinary, nullable=False),
    sqlite_autoincrement=True,
)
