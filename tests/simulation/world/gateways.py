"""A replica of ingest in the simulated world: writes requests and cancels down, asks the owner, tells readers.

Made by world.run; world.callers decide what is asked of it. What readers are shown is decided by the product's own decisions
(world.readers). Invariant: a request is promised to its caller only once its record is acknowledged.
"""

from collections.abc import Callable
from datetime import timedelta

from headrace.bus.messages import Message, message_of
from headrace.contracts.codec import decode
from headrace.contracts.control import CancelRequest, Query
from headrace.contracts.ids import AttemptId
from headrace.contracts.lifecycle import Status
from headrace.contracts.replies import Answer, Chunk, Final
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind
from headrace.ingest.decisions.what_to_answer import Ended
from tests.simulation.world.database import Database
from tests.simulation.world.process import Process
from tests.simulation.world.producing import Writing
from tests.simulation.world.readers import NativeReader, OpenAIReader, Reader
from tests.simulation.world.reading import Cursors
from tests.simulation.world.stage import Stage
from tests.support.scheduler.pure import place

_DELIVERY = timedelta(seconds=10)
_TURN_MS, _LOOK_MS = 250, 1_000
_BATCH = 500
_CLOCKS_DIFFER_MS = 5_000


class SimGateway(Process):
    """One replica; `number` is the partition of `replies` that it reads."""

    def __init__(self, stage: Stage, number: int, database: Database) -> None:
        super().__init__(stage, f"ingest{number}")
        self.number, self._database = number, database
        self.answered: Callable[[Answer], None] = lambda _: None
        self.forget()

    def forget(self) -> None:
        """As Process.forget. All connections break."""
        for _, reader, connection in getattr(self, "_natives", {}).values():
            if reader.connection == connection:
                reader.disconnect()
        self._openai: dict[str, list[OpenAIReader]] = {}
        self._natives: dict[int, tuple[Cursors, NativeReader, int]] = {}
        self._cursors: Cursors | None = None
        self._looked_ms = 0

    def begin(self) -> None:
        """As Process.begin."""
        self._writing = Writing(self, _DELIVERY)
        self._cursors = Cursors(self)
        where = place(TopicKind.REPLIES, self.number)
        self._cursors.positions = {where: self.stage.broker.logs[where].end}
        self.stage.broker.listen(self, [where])

    def turn(self) -> int:
        """As Process.turn."""
        assert self._cursors is not None
        finals: set[str] = set()
        for received in self._cursors.collect(_BATCH):
            record = decode(TopicKind.REPLIES, received.header)
            if isinstance(record, Answer):
                self.answered(record)
            elif isinstance(record, Chunk):
                for reader in self._openai.get(record.id, ()):
                    reader.hear(received, record)
            elif isinstance(record, Final):
                finals.add(record.id)
        for key, (cursors, native, connection) in list(self._natives.items()):
            if native.connection != connection:
                del self._natives[key]
            else:
                self._turn_native(key, cursors, native, finals)
        self._look_up(finals)
        return _TURN_MS

    def write(self, message: Message, told: Callable[[bool], None]) -> None:
        """Write a record down; `told` hears whether that was acknowledged, if this replica lives so long."""
        self._guarded(lambda: self._writing.send(message, told))

    def cancel(self, record: RequestRecord, told: Callable[[bool], None]) -> None:
        """A caller no longer wants it."""
        cancel = CancelRequest(id=record.id, tenant=record.tenant, at_ms=self.clock.now().wall_ms)
        self.write(message_of(place(TopicKind.CONTROL), cancel), told)

    def ask(self, request_id: str, nonce: str) -> None:
        """Ask the owner."""
        query = Query(id=request_id, nonce=nonce, gateway=self.number, why=True)
        self.write(message_of(place(TopicKind.CONTROL), query), lambda _: None)

    def stream(self, reader: OpenAIReader) -> None:
        """A caller listens on the connection on which it submitted."""
        self._openai.setdefault(reader.record.id, []).append(reader)

    def follow(self, reader: NativeReader) -> None:
        """A reader of events connects."""
        where, offset = reader.connect()
        assert where is not None
        cursors, log = Cursors(self), self.stage.broker.logs[where]
        since_ms = reader.record.accepted_ms - _CLOCKS_DIFFER_MS
        cursors.positions = {where: log.at_time(since_ms) if offset is None else offset}
        self._natives[id(reader)] = (cursors, reader, reader.connection)

    def _turn_native(self, key: int, cursors: Cursors, reader: NativeReader, finals: set[str]) -> None:
        for received in cursors.collect(_BATCH):
            record = decode(TopicKind.REPLIES, received.header)
            if getattr(record, "id", "") != reader.record.id or not reader.connected:
                continue
            if isinstance(record, Chunk):
                reader.hear(received, record)
            elif isinstance(record, Final):
                finals.add(record.id)
        if not reader.connected:
            del self._natives[key]

    def _look_up(self, finals: set[str]) -> None:
        """Tell those whose request has ended; a Final that was lost is made up for by looking, now and then."""
        now_ms = self.stage.now_ms
        waiting = {*self._openai, *(reader.record.id for _, reader, _ in self._natives.values())}
        due = now_ms - self._looked_ms >= _LOOK_MS
        if not waiting or self._database.is_down or not (due or finals):
            return
        self._looked_ms = now_ms if due else self._looked_ms
        rows = self._database.results_of(waiting if due else finals)
        for request_id, row in rows.items():
            self._end(request_id, ended_of(row))

    def _end(self, request_id: str, ended: Ended) -> None:
        readers: list[Reader] = list(self._openai.pop(request_id, []))
        for key, (_, native, connection) in list(self._natives.items()):
            if native.record.id == request_id and native.connection == connection:
                del self._natives[key]
                readers.append(native)
        for reader in readers:
            reader.end(ended)
            if isinstance(reader, NativeReader):
                reader.disconnect()


def ended_of(row: dict[str, object]) -> Ended:
    """A row of the results as the doors get it."""
    epoch, sequence, body = row["attempt_epoch"], row["attempt_sequence"], row["body"]
    assert isinstance(epoch, int)
    assert isinstance(sequence, int)
    assert isinstance(body, bytes)
    return Ended(
        id=str(row["id"]), status=Status(str(row["status"])), http_status=200, attempt=AttemptId(epoch, sequence),
        body=body, partial=bool(row["partial"]),
    )  # fmt: skip
