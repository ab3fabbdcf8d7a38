"""Those outside: they submit, submit twice, cancel, ask how things stand, read streams and come back after a break.

Made by world.run. `accepted` is what they were promised. Invariant: what stands here is what a caller knows, not what the
system knows.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import msgspec

from headrace.bus.messages import Message, message_of
from headrace.contracts.codec import HEADER
from headrace.contracts.ids import mint_request_id
from headrace.contracts.lifecycle import Status
from headrace.contracts.partitions import partition_of
from headrace.contracts.prefixes import HASH_CHARACTERS
from headrace.contracts.replies import Answer
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Payload
from tests.simulation.world.database import Database
from tests.simulation.world.gateways import SimGateway
from tests.simulation.world.readers import NativeReader, OpenAIReader, Reader
from tests.simulation.world.stage import TENANTS, TIERS, Stage
from tests.support.scheduler.pure import POOL, place

_KEY = b"k" * 32
_CHAT = "/v1/chat/completions"
_FOREVER_MS = 1_000_000


@dataclass(slots=True)
class Asked:
    """One request as its caller knows it. `accepted_ms` None: nobody has promised anything."""

    record: RequestRecord
    accepted_ms: int | None = None
    cancelled_ms: int | None = None
    cancel_tried: bool = False
    statuses: list[tuple[int, Status]] = field(default_factory=list)
    readers: list[Reader] = field(default_factory=list)


class Callers:
    """All of them. `plan` says how many there will be, over which time."""

    def __init__(
        self, stage: Stage, gateways: list[SimGateway], database: Database, *, hints: bool = False
    ) -> None:
        self._stage, self._gateways, self._database, self._hints = stage, gateways, database, hints
        self.asked: dict[str, Asked] = {}
        self.garbage = 0
        self.left = 0
        """Things that callers have still to do."""
        for gateway in gateways:
            gateway.answered = self._answered

    def plan(self, count: int, over_ms: int) -> None:
        """So many requests within this time, in bursts."""
        rng = self._stage.rng
        bursts = [rng.randint(0, over_ms) for _ in range(max(1, count // 4))]
        for number in range(count):
            self._do_at(rng.choice(bursts) + rng.randint(0, 300), partial(self._submit, number))
        if rng.random() < 0.4:
            self._do_at(rng.randint(0, over_ms), self._write_garbage)

    def _do_at(self, when_ms: int, act: Callable[[], None]) -> None:
        self.left += 1

        def do() -> None:
            self.left -= 1
            act()

        self._stage.clockwork.at(when_ms, do)

    def submit_now(self, *, tier: str = "batch", tenant: str = "a", stream: bool = False) -> Asked:
        """One plain request, or one that is streamed with another text at each attempt: for written schedules."""
        gateway, partition = self._gateways[0], partition_of(tenant, 2)
        plain = self._record(0, gateway)
        made = mint_request_id(
            _KEY, tenant=tenant, pool=POOL, tier=tier, partition=partition, wall_ms=plain.accepted_ms,
            random=self._stage.rng.randbytes(10),
        )  # fmt: skip
        record = msgspec.structs.replace(
            plain,
            id=made,
            tier=tier,
            tenant=tenant,
            partition=partition,
            stream=stream,
            metadata={"varies": "yes"} if stream else {},
        )
        asked = self.asked[made] = Asked(record)
        message = message_of(place(TopicKind.REQUESTS, record.partition, tier), record, b"{}")

        def told(acknowledged: bool) -> None:
            asked.accepted_ms = self._stage.now_ms if acknowledged else None

        gateway.write(message, told)
        return asked

    def follow_now(self, asked: Asked) -> NativeReader:
        """A reader of its events, for written schedules."""
        reader = NativeReader(self._stage, asked.record)
        asked.readers.append(reader)
        self._follow(reader)
        return reader

    def stream_now(self, asked: Asked) -> OpenAIReader:
        """A caller of OpenAI's door who listens to it, for written schedules."""
        reader = OpenAIReader(self._stage, asked.record)
        asked.readers.append(reader)
        self._gateways[0].stream(reader)
        return reader

    def cancel_now(self, asked: Asked) -> None:
        """Its caller no longer wants it, for written schedules."""
        self._cancel(asked)

    def write_again_now(self, asked: Asked) -> None:
        """The same id once more, for written schedules."""
        where = place(TopicKind.REQUESTS, asked.record.partition, asked.record.tier)
        self._write_again(message_of(where, asked.record, b"{}"))

    def _gateway(self) -> SimGateway | None:
        alive = [gateway for gateway in self._gateways if gateway.alive and not gateway.paused]
        return self._stage.rng.choice(alive) if alive else None

    def _record(self, number: int, gateway: SimGateway) -> RequestRecord:
        rng, wall_ms = self._stage.rng, gateway.clock.now().wall_ms
        tier, tenant = rng.choice(TIERS), rng.choice(TENANTS)
        partition = partition_of(tenant, 2)
        made = mint_request_id(
            _KEY, tenant=tenant, pool=POOL, tier=tier, partition=partition, wall_ms=wall_ms,
            random=rng.randbytes(10),
        )  # fmt: skip
        hurry = number % 7 == 3
        prefix, session = self._hinted(tenant) if self._hints else ("", None)
        return RequestRecord(
            id=made, tenant=tenant, pool=POOL, tier=tier, partition=partition, model="m", route=_CHAT,
            accepted_ms=wall_ms, payload=Payload(size=2), gateway=gateway.number, waits=rng.random() < 0.5,
            stream=rng.random() < 0.6, plain_text=True, max_tokens=10, prompt_tokens=4,
            start_by_ms=wall_ms + (rng.randint(300, 6_000) if hurry else _FOREVER_MS),
            finish_by_ms=wall_ms + rng.randint(2_000, 15_000) if number % 11 == 5 else None,
            metadata={"varies": "yes"} if rng.random() < 0.4 else {}, prefix=prefix, session=session,
        )  # fmt: skip

    def _hinted(self, tenant: str) -> tuple[str, str | None]:
        """What a prompt begins with, and its session: one of a few of each tenant, or none."""
        rng = self._stage.rng
        blocks, talk = rng.randint(0, 3), rng.randint(1, 3)
        beginnings = (f"{tenant}{talk}{block}".ljust(HASH_CHARACTERS, "-") for block in range(blocks))
        return "".join(beginnings), rng.choice((None, f"session-{tenant}{talk}"))

    def _submit(self, number: int) -> None:
        gateway = self._gateway()
        if gateway is None:
            self._do_at(self._stage.now_ms + 400, partial(self._submit, number))
            return
        record, rng = self._record(number, gateway), self._stage.rng
        asked = self.asked[record.id] = Asked(record)
        where = place(TopicKind.REQUESTS, record.partition, record.tier)
        message = message_of(where, record, b"{}")
        gateway.write(message, partial(self._written, asked, message))
        if record.stream and rng.random() < 0.5:
            reader = OpenAIReader(self._stage, record)
            asked.readers.append(reader)
            gateway.stream(reader)
        if rng.random() < 0.12:
            self._do_at(self._stage.now_ms + rng.randint(1, 6_000), partial(self._write_again, message))

    def _written(self, asked: Asked, message: Message, acknowledged: bool) -> None:
        stage, rng = self._stage, self._stage.rng
        if not acknowledged:
            self._do_at(stage.now_ms + rng.randint(1, 500), partial(self._write_again, message))
            return
        asked.accepted_ms = asked.accepted_ms or stage.now_ms
        stage.note(
            "caller", f"{asked.record.id[-6:]} of {asked.record.tenant} is accepted in {asked.record.tier}"
        )
        if rng.random() < 0.18:
            self._do_at(stage.now_ms + rng.randint(0, 4_000), partial(self._cancel, asked))
        for _ in range(rng.randint(0, 3)):
            self._do_at(stage.now_ms + rng.randint(10, 9_000), partial(self._look, asked))
        if rng.random() < 0.5:
            reader = NativeReader(stage, asked.record)
            asked.readers.append(reader)
            self._do_at(stage.now_ms + rng.randint(0, 3_000), partial(self._follow, reader))

    def _write_again(self, message: Message) -> None:
        """A client's own repetition: the same id once more."""
        gateway = self._gateway()
        if gateway is not None:
            self._stage.saw("duplicate produce")
            gateway.write(message, lambda _: None)

    def _write_garbage(self) -> None:
        gateway = self._gateway()
        if gateway is not None:
            where = place(TopicKind.REQUESTS, 0, "batch")
            self.garbage += 1
            gateway.write(Message(where.topic, 0, b"junk", ((HEADER, b"{not json"),)), lambda _: None)

    def _cancel(self, asked: Asked) -> None:
        gateway = self._gateway()
        if gateway is None:
            return

        asked.cancel_tried = True

        def told(acknowledged: bool) -> None:
            if acknowledged:
                asked.cancelled_ms = asked.cancelled_ms or self._stage.now_ms
                self._stage.saw("cancel")

        gateway.cancel(asked.record, told)

    def _look(self, asked: Asked) -> None:
        """As GET /v1/requests/{id}: what is stored, else the owner's word."""
        if not self._database.is_down:
            rows = self._database.results_of([asked.record.id])
            if rows:
                self._observe(asked, Status(str(rows[asked.record.id]["status"])))
                return
        gateway = self._gateway()
        if gateway is not None:
            gateway.ask(asked.record.id, f"n{self._stage.now_ms}")

    def _answered(self, answer: Answer) -> None:
        asked = self.asked.get(answer.id)
        if asked is None or not answer.known or answer.status is None:
            return
        if not self._database.results_of([answer.id]):
            self._observe(asked, answer.status)

    def _observe(self, asked: Asked, status: Status) -> None:
        asked.statuses.append((self._stage.now_ms, status))
        self._stage.saw(f"seen {status}")

    def _follow(self, reader: NativeReader) -> None:
        """Connects, and comes back until it was told that this is all."""
        stage, rng = self._stage, self._stage.rng
        if reader.had.ended:
            return
        gateway = self._gateway()
        if gateway is not None and not reader.connected:
            gateway.follow(reader)
            reader.to_break = stage.faulty and rng.random() < 0.3
            if stage.faulty and rng.random() < 0.3:
                stage.clockwork.after(rng.randint(10, 3_000), reader.disconnect)
        stage.clockwork.after(rng.randint(500, 3_000), partial(self._follow, reader))

    @property
    def all_told(self) -> bool:
        """Whether every reader that will ever be told everything has been."""
        readers = [r for asked in self.asked.values() for r in asked.readers if isinstance(r, NativeReader)]
        return all(reader.had.ended for reader in readers)
