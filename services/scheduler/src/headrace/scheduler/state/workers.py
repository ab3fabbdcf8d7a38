"""The boots that are alive as the log tells it, and the graves of those that aren't. Used by the core.

Invariant: one live boot a name, and what is buried stays buried. A lesser boot of a name is ignored only while the greater
one lives: a worker whose clock was turned back while it was down registers with a lesser boot, and must be served.
"""

from collections import defaultdict, deque
from dataclasses import dataclass, field

from headrace.contracts.ids import AttemptId
from headrace.contracts.reports import Gone, Report, Tick, WorkerRecord
from headrace.scheduler.decisions.is_dead import silent_too_long
from headrace.scheduler.state.cached_prefixes import CachedPrefixes

_REMEMBERED = 256
"""Attempts that were sent; what is still held of them is known anyway."""


@dataclass(slots=True, eq=False)
class Worker:
    """One live boot and its last report. `ticks`: distinct ticks by epoch that had been read when that was read.

    `refuses`: it has handed work back since that report, so it gets none before the next one. `given`: the attempts that it
    was sent last, each with the tokens that it was expected to take.
    """

    name: str
    boot: str
    report: Report
    ticks: dict[int, int] = field(default_factory=dict)
    fenced_ms: int = -(10**12)
    refuses: bool = False
    given: deque[tuple[AttemptId, int]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))


@dataclass(slots=True)
class Grave:
    """A dead boot: when its further reports were last answered. `harmless`: it left, or lost touch; nothing has killed it."""

    worker: str
    harmless: bool = False
    told_ms: int = -(10**12)
    reports: int = 0
    """How often it has reported since a greater boot of its name lives."""


class Workers:
    """Live boots by name and what their backends' caches probably hold, graves by boot, and the ticks read."""

    def __init__(self) -> None:
        self.live: dict[str, Worker] = {}
        self.graves: dict[str, Grave] = {}
        self.caches = CachedPrefixes()
        self._ticks: defaultdict[int, int] = defaultdict(int)
        self._last_tick: dict[int, int] = {}

    def is_late(self, name: str, boot: str) -> bool:
        """Whether this is a record of a lesser boot than the one of that name that lives."""
        return name in self.live and boot < self.live[name].boot

    def heard(self, report: Report) -> tuple[Worker, Worker | None]:
        """A report of a boot that is neither late nor buried; also the lesser boot of its name that it buries, if any."""
        known = self.live.get(report.worker)
        buried = known if known is not None and known.boot != report.boot else None
        if known is None or buried is not None:
            known = self.live[report.worker] = Worker(report.worker, report.boot, report)
        known.report, known.ticks, known.refuses = report, dict(self._ticks), False
        return known, buried

    def bury(self, worker: Worker, *, harmless: bool = False) -> None:
        """It is dead: a further report of it is answered with `buried`."""
        self.graves[worker.boot] = Grave(worker.name, harmless)
        self.caches.forget(worker.boot)
        if self.live.get(worker.name) is worker:
            del self.live[worker.name]

    def ticked(self, tick: Tick) -> list[Worker]:
        """Count a tick, each number once; the boots that are dead by it."""
        if tick.number <= self._last_tick.get(tick.epoch, -1):
            return []
        self._last_tick[tick.epoch] = tick.number
        self._ticks[tick.epoch] += 1
        return [worker for worker in self.live.values() if silent_too_long(self._ticks, worker.ticks)]

    def follow(self, record: WorkerRecord, *, lanes: int) -> None:
        """Fold one record as the owner at that time did, so that its successor needn't read it again."""
        match record:
            case Tick():
                for dead in self.ticked(record):
                    self.bury(dead)
            case Gone():
                worker = self.by_boot(record.boot)
                if worker is not None:
                    self.bury(worker, harmless=True)
            case Report() if record.lane < lanes and record.boot not in self.graves:
                self._follow_report(record)

    def _follow_report(self, report: Report) -> None:
        if self.is_late(report.worker, report.boot):
            return
        lesser = self.heard(report)[1]
        if lesser is not None:
            self.bury(lesser, harmless=report.instead_of == lesser.boot)
        grave = self.graves.get(report.instead_of or "")
        if grave is not None:
            grave.harmless = True

    def by_boot(self, boot: str) -> Worker | None:
        """The live worker of this boot."""
        return next((worker for worker in self.live.values() if worker.boot == boot), None)
