"""What `workers` tells of each worker of a pool. Pure; called by `headrace workers`."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from headrace.contracts.durations import ms, render
from headrace.contracts.reports import Allowed, Gone, Left, PerMinute, Report, WorkerRecord

SILENT_AFTER = timedelta(seconds=5)
"""Ten reports."""
SILENT = "silent"


@dataclass(frozen=True, slots=True)
class WorkerPicture:
    """The last word of one worker; `seen_ms`: when it was written, Unix ms by the broker. `per_minute` and `allowed` as in
    its report: what its backend takes, as its operator says, and as the backend says itself.
    """

    name: str
    pool: str
    boot: str
    seen_ms: int
    lane: int
    slots: int
    held: int
    running: int
    epoch: int
    healthy: bool
    draining: bool
    per_minute: PerMinute | None = None
    allowed: Allowed | None = None

    def state(self, wall_ms: int) -> str:
        """A word or two for people."""
        if wall_ms - self.seen_ms > ms(SILENT_AFTER):
            return SILENT
        if self.draining:
            return "draining" if self.held else "drained"
        return "serving" if self.healthy else "backend down"

    def told(self, wall_ms: int) -> str:
        """The same for people, with how long it has been silent."""
        silent = timedelta(seconds=(wall_ms - self.seen_ms) // 1000)
        state = self.state(wall_ms)
        return f"{state} for {render(silent)}" if state == SILENT else state

    @property
    def takes(self) -> str:
        """What its backend takes in a minute, for people; empty where nobody said so."""
        told = self.per_minute
        pairs = () if told is None else ((told.requests, "requests"), (told.tokens, "tokens"))
        return ", ".join(f"{most:,} {what}" for most, what in pairs if most is not None)

    @property
    def left(self) -> str:
        """What its backend said last is left, for people."""
        said = self.allowed
        pairs = () if said is None else ((said.requests, "requests"), (said.tokens, "tokens"))
        return ", ".join(told for each, what in pairs if (told := _left_of(each, what)))


def _left_of(said: Left | None, what: str) -> str:
    if said is None:
        return ""
    most = "" if said.limit is None else f"{said.limit:,}"
    if said.left is None:
        return most and f"any of {most} {what}"
    return f"{max(0, said.left):,} of {most} {what}" if most else f"{max(0, said.left):,} {what}"


def workers_of(pool: str, log: Iterable[tuple[int, WorkerRecord]]) -> list[WorkerPicture]:
    """Those that haven't said goodbye, by name; `log` in order, with the instant of each record."""
    last: dict[str, tuple[int, Report]] = {}
    for at_ms, record in log:
        known = last.get(getattr(record, "worker", ""))
        if isinstance(record, Report) and (known is None or record.boot >= known[1].boot):
            last[record.worker] = (at_ms, record)
        elif isinstance(record, Gone) and known is not None and known[1].boot == record.boot:
            del last[record.worker]
    return [_picture(pool, at_ms, report) for _, (at_ms, report) in sorted(last.items())]


def _picture(pool: str, at_ms: int, report: Report) -> WorkerPicture:
    return WorkerPicture(
        name=report.worker,
        pool=pool,
        boot=report.boot,
        seen_ms=at_ms,
        lane=report.lane,
        slots=report.limit,
        held=len(report.held),
        running=sum(held.running for held in report.held),
        epoch=report.epoch,
        healthy=report.healthy,
        draining=report.draining,
        per_minute=report.per_minute,
        allowed=report.allowed,
    )
