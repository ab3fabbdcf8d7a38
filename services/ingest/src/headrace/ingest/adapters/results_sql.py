"""Reads committed results from SQL. The table is result-delivery's, which migrates it; a test compares both.

Invariant: read-only. While the tables don't exist yet, nothing is known yet, which is not an error; but it is said once a
minute, since it is also what a replica sees that looks for them in the wrong place.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from sqlalchemy import Select, column, event, select, table
from sqlalchemy.engine import URL, Row, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import AttemptId
from headrace.contracts.lifecycle import Status
from headrace.contracts.replies import Final
from headrace.contracts.seal import Encoding, Seal
from headrace.contracts.values import Failure, Payload, Times, Usage
from headrace.ingest.decisions.what_to_answer import Ended
from headrace.ingest.ports import PassedOn, ResultsUnavailableError, StoredResult
from headrace.runtime.clock import Clock, SystemClock
from headrace.runtime.logging import get_logger
from headrace.runtime.rarely import Rarely

_STATUS = (
    "id", "tenant", "tier", "status", "http_status", "model", "route", "stream", "partial", "attempts",
    "attempt_epoch", "attempt_sequence", "failure_kind", "failure_message", "prompt_tokens", "cached_tokens",
    "completion_tokens", "usage_estimated", "accepted_ms", "dispatched_ms", "started_ms", "first_token_ms",
    "finished_ms", "content_type", "encoding", "reference",
)  # fmt: skip
COLUMNS = (*_STATUS, "body")
"""What is read of `results`."""

NOTED = ("id", "tenant", "model", "pool", "hop")
"""What is read of `requests`."""

_NOT_YET = ("no such table", "unable to open database file", "UndefinedTable")
_KINDS = ("sqlite", "postgresql", "postgres")
_EXPECTED = "expected sqlite:///folder/file.db or postgresql://user:password@host/name"
_BUSY_MS = 2000
_REOPEN_SECONDS = 10


def engine_url(url: str) -> URL:
    """The URL, parsed. Raises ValueError for one of another kind; never shows a password."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ValueError(_EXPECTED) from None
    if parsed.drivername.partition("+")[0] not in _KINDS:
        raise ValueError(_EXPECTED)
    return parsed


def open_results(url: str) -> AsyncEngine:
    """An engine that only reads: `sqlite:///file.db` or `postgresql://…`. Opens nothing yet."""
    parsed = engine_url(url)
    if parsed.get_backend_name() != "sqlite":
        return create_async_engine(parsed.set(drivername="postgresql+psycopg"), pool_pre_ping=True)
    location = URL.create(
        "sqlite+aiosqlite",
        database=f"file:{quote(parsed.database or '')}",
        query={"mode": "rw", "uri": "true"},
    )
    # a file that was replaced is found again; an old connection would read the lost one for ever
    engine = create_async_engine(location, pool_size=2, max_overflow=2, pool_recycle=_REOPEN_SECONDS)
    event.listen(engine.sync_engine, "connect", _only_read)
    return engine


def _only_read(connection: Any, _record: object) -> None:  # noqa: ANN401 - a DBAPI connection has no type
    # mode=rw and not ro: a reader of a write-ahead log must be able to make its shared memory file
    cursor = connection.cursor()
    cursor.execute("PRAGMA query_only=ON")
    cursor.execute(f"PRAGMA busy_timeout={_BUSY_MS}")
    cursor.close()


class SqlResults:
    """The results, by request id."""

    def __init__(self, engine: AsyncEngine, seal: Seal, clock: Clock | None = None) -> None:
        self._engine, self._seal = engine, seal
        self._rarely = Rarely(get_logger("results"), clock or SystemClock())
        self._table = table("results", *(column(name) for name in COLUMNS))
        self._requests = table("requests", *(column(name) for name in NOTED))

    async def find(self, request_id: str, tenant: str, *, body: bool) -> StoredResult | None:
        """The result of a request; None while there is none. Raises ResultsUnavailableError."""
        columns = [self._table.c[name] for name in (COLUMNS if body else _STATUS)]
        mine = self._table.c.id == request_id
        rows = await self._rows(select(*columns).where(mine, self._table.c.tenant == tenant))
        try:
            return self._result(rows[0]) if rows else None
        except ValueError as error:
            raise _not_understood(error) from error

    async def accepted(self, request_id: str, tenant: str) -> str | None:
        """The model of a request that is noted as accepted; None while it isn't. Raises ResultsUnavailableError."""
        noted = self._requests
        rows = await self._rows(
            select(noted.c.model).where(noted.c.id == request_id, noted.c.tenant == tenant)
        )
        return rows[0].model if rows else None

    async def passed_on(self, request_id: str, tenant: str) -> PassedOn | None:
        """Where a request was passed on to, as far as that is noted. Raises ResultsUnavailableError."""
        noted = self._requests
        mine = (noted.c.id == request_id, noted.c.tenant == tenant, noted.c.hop > 0)
        rows = await self._rows(select(noted.c.pool, noted.c.hop).where(*mine))
        return PassedOn(rows[0].pool, rows[0].hop) if rows else None

    async def ended(self, ids: Collection[str]) -> list[Final]:
        """Those of the ids that have a result. Raises ResultsUnavailableError."""
        if not ids:
            return []
        columns = [self._table.c[name] for name in _STATUS]
        rows = await self._rows(select(*columns).where(self._table.c.id.in_(ids)))
        try:
            return [_final(row) for row in rows]
        except ValueError as error:
            raise _not_understood(error) from error

    async def close(self) -> None:
        """Closes its connections."""
        await self._engine.dispose()

    async def _rows(self, query: Select[Any]) -> list[Row[Any]]:
        try:
            async with self._engine.connect() as connection:
                return list((await connection.execute(query)).all())
        except (SQLAlchemyError, OSError) as error:
            if _is_not_there_yet(error):
                self._rarely.warning("the database has no results yet", reason=_where(self._engine.url))
                return []
            raise ResultsUnavailableError(f"results can't be read: {type(error).__name__}") from error

    def _result(self, row: Row[Any]) -> StoredResult:
        final = _final(row)
        return StoredResult(
            ended=Ended(
                id=final.id,
                status=final.status,
                http_status=final.http_status,
                attempt=final.attempt,
                body=self._body(row),
                content_type=final.payload.content_type,
                partial=final.partial,
                failure=final.failure,
                usage=final.usage,
                model=final.model,
            ),
            tier=row.tier,
            model=row.model,
            route=row.route,
            stream=bool(row.stream),
            attempts=row.attempts,
            accepted_ms=row.accepted_ms,
            times=Times(
                dispatched_ms=row.dispatched_ms,
                started_ms=row.started_ms,
                first_token_ms=row.first_token_ms,
                finished_ms=row.finished_ms,
            ),
        )

    def _body(self, row: Row[Any]) -> bytes:
        stored = bytes(getattr(row, "body", b"") or b"")
        if not stored:
            return b""
        return self._seal.open(stored, Encoding(row.encoding), tenant=row.tenant, request_id=row.id)


def _final(row: Row[Any]) -> Final:
    kind = row.failure_kind
    return Final(
        id=row.id,
        attempt=AttemptId(row.attempt_epoch, row.attempt_sequence),
        status=Status(row.status),
        http_status=row.http_status,
        payload=Payload(
            size=0, encoding=Encoding(row.encoding), reference=row.reference, content_type=row.content_type
        ),
        stored=True,
        partial=bool(row.partial),
        failure=None if kind is None else Failure(kind=FailureKind(kind), message=row.failure_message or ""),
        usage=Usage(
            prompt_tokens=row.prompt_tokens,
            cached_tokens=row.cached_tokens,
            completion_tokens=row.completion_tokens,
            estimated=bool(row.usage_estimated),
        ),
        model=row.model,
    )


def _not_understood(error: ValueError) -> ResultsUnavailableError:
    """A status or a failure of a later version: this replica must be renewed, and is of use meanwhile."""
    return ResultsUnavailableError(f"a result isn't understood: {error}"[:200])


def _where(url: URL) -> str:
    """Which database that is, and what is amiss if it isn't only new."""
    if url.get_backend_name() != "sqlite":
        return f"result-delivery has made no tables in {url.render_as_string(hide_password=True)}"
    path = Path(unquote((url.database or "").removeprefix("file:"))).absolute()
    return f"result-delivery has made no tables in {path}: HEADRACE_DATABASE must mean the same file for both"


def _is_not_there_yet(error: Exception) -> bool:
    told = f"{type(error.orig).__name__} {error.orig}" if isinstance(error, DBAPIError) else str(error)
    return any(words in told for words in _NOT_YET)
