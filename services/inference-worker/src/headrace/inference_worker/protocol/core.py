"""The worker's protocol: `step(inputs, now) -> outputs`. Called by the service's loop, and by simulations in virtual time.

Invariant: registration is lane, end noted, report acknowledged, epoch read, and only then is the lane obeyed; a boot that is
buried, silent for too long or deaf is dropped whole and a new one registers.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from msgspec.structs import replace

from headrace.contracts.clock import Now
from headrace.contracts.commands import Ping
from headrace.contracts.durations import ms
from headrace.contracts.reports import Gauges, Gone, PerMinute
from headrace.inference_worker.protocol.boot import Boot
from headrace.inference_worker.protocol.holdings import HoldingToken
from headrace.inference_worker.protocol.inputs import (
    BackendSeen,
    CallEnded,
    EpochRead,
    GaugesSeen,
    Input,
    LaneFound,
    LaneLost,
    LaneRead,
    LimitsHeard,
    Progress,
    StopAsked,
    Written,
)
from headrace.inference_worker.protocol.outputs import (
    AbortAll,
    FindLane,
    Finished,
    FollowLane,
    Output,
    ReadEpoch,
    SendPing,
    SendWorker,
)
from headrace.inference_worker.timings import Timings


class Phase(StrEnum):
    """Where the registration stands."""

    LOOKING = "looking"
    REGISTERING = "registering"
    READING_EPOCH = "reading_epoch"
    SERVING = "serving"
    LEAVING = "leaving"
    GONE = "gone"


_SAID_GOODBYE = frozenset({Phase.LEAVING, Phase.GONE})


@dataclass(frozen=True, slots=True)
class _Token:
    """Whose report, ping or goodbye was confirmed."""

    boot: str
    what: str
    number: int


class WorkerCore:
    """One worker. `phase` is for readiness and tests."""

    def __init__(
        self, *, worker: str, limit: int, timings: Timings, per_minute: PerMinute | None = None
    ) -> None:
        self._worker, self._limit, self._timings = worker, limit, timings
        self._per_minute = per_minute
        self.phase = Phase.LOOKING
        self._boot: Boot | None = None
        self._given_up: str | None = None
        self._healthy, self._looking, self._stopping = True, False, False
        self._drained = False
        self._gauges: tuple[Gauges, int] | None = None
        self._samples = 0
        self._drain_since: int | None = None
        self._gone_at: int | None = 0
        self._out: list[Output] = []

    @property
    def ready(self) -> bool:
        """Registered, obeying, in service, and with a backend that answers."""
        return self.phase is Phase.SERVING and self._healthy and not self._drained

    @property
    def drained(self) -> bool:
        """Whether an operator has taken it out of service: it holds until undrained, over boots, not over restarts."""
        return self._drained

    @property
    def boot(self) -> Boot | None:
        """The present boot, to be looked at only."""
        return self._boot

    def step(self, inputs: Iterable[Input], now: Now) -> list[Output]:
        """What is to be done after these inputs, at this instant."""
        if self._boot is not None:
            self._boot.turn(now)
        for item in inputs:
            self._TAKES[type(item)](self, item, now)
        self._turn(now)
        out, self._out = self._out, []
        return out

    def _turn(self, now: Now) -> None:
        boot = self._boot
        if boot is None:
            self._look()
        elif self.phase in _SAID_GOODBYE:
            pass
        elif boot.buried or boot.lease.given_up(now) or boot.pings.overdue(now):
            self._anew()
        else:
            self._serve(boot, now)
        self._leave(now)

    def _serve(self, boot: Boot, now: Now) -> None:
        if not boot.draining:
            self._drain_since = None
        elif self._drain_since is None:
            self._drain_since = now.boot_ms
        if self._drain_since is not None and now.boot_ms - self._drain_since > ms(self._timings.drain_grace):
            self._out.extend(boot.give_back_running())
        self._out.extend(boot.start_waiting(now))
        self._out.extend(boot.holdings.sends(now))
        if (number := boot.lease.begin(now)) is not None:
            self._out.append(SendWorker(_Token(boot.id, "report", number), boot.report(now)))
        if self.phase is Phase.SERVING and (number := boot.pings.begin(now)) is not None:
            ping = Ping(number=number, boot=boot.id)
            self._out.append(SendPing(_Token(boot.id, "ping", number), boot.lane, ping))

    def _look(self) -> None:
        if not self._looking and not self._stopping:
            self._looking = True
            self._out.append(FindLane())

    def _anew(self) -> None:
        """Drop the boot with all that it holds: its owner takes it for dead, or soon will."""
        self._given_up = self._boot.id if self._boot is not None else self._given_up
        self._boot, self._drain_since, self.phase = None, None, Phase.LOOKING
        self._out.append(AbortAll())
        self._look()

    def _leave(self, now: Now) -> None:
        boot = self._boot
        if self._stopping and (boot is None or self.phase is Phase.GONE or self._out_of_time(now)):
            self.phase = Phase.GONE
            self._out.append(Finished())
        elif self._stopping and boot is not None and not len(boot.holdings):
            self.phase = Phase.LEAVING
            self._say_goodbye(boot, now)

    def _say_goodbye(self, boot: Boot, now: Now) -> None:
        """After the last report, never before it: a boot that is gone writes nothing more."""
        if self._gone_at is not None and self._gone_at <= now.boot_ms and not boot.lease.under_way:
            self._gone_at = None
            gone = Gone(worker=self._worker, boot=boot.id)
            self._out.append(SendWorker(_Token(boot.id, "gone", 0), gone))

    def _out_of_time(self, now: Now) -> bool:
        patience = ms(self._timings.drain_grace + self._timings.leave_within)
        return self._drain_since is not None and now.boot_ms - self._drain_since > patience

    def _lane_found(self, found: LaneFound, now: Now) -> None:
        self._looking = False
        if self._stopping or self._boot is not None:
            return
        self._boot = Boot(
            found, worker=self._worker, limit=self._limit, timings=self._timings, now=now,
            instead_of=self._given_up, per_minute=self._per_minute,
        )  # fmt: skip
        self._boot.healthy, self._gone_at = self._healthy, now.boot_ms
        self._boot.draining, self._boot.gauges = self._drained, self._gauges
        self.phase = Phase.REGISTERING

    def _epoch_read(self, read: EpochRead, now: Now) -> None:
        boot = self._of(read.boot)
        if boot is not None and self.phase is Phase.READING_EPOCH:
            boot.epoch = max(boot.epoch, read.epoch)
            boot.lease.report_now(now)
            self.phase = Phase.SERVING
            self._out.append(FollowLane(boot.id, boot.lane, boot.position))

    def _lane_read(self, read: LaneRead, now: Now) -> None:
        if boot := self._of(read.boot):
            self._out.extend(boot.read(read, now))
            self._drained = boot.draining and not boot.leaving

    def _lane_lost(self, lost: LaneLost, _: Now) -> None:
        if boot := self._of(lost.boot):
            boot.buried = True

    def _written(self, written: Written, now: Now) -> None:
        token, boot = written.token, self._boot
        if boot is None:
            return
        if isinstance(token, HoldingToken):
            boot.holdings.written(token, written, now)
        elif isinstance(token, _Token) and token.boot == boot.id:
            self._own_written(boot, token, written, now)

    def _own_written(self, boot: Boot, token: _Token, written: Written, now: Now) -> None:
        acknowledged = written.acknowledged
        if token.what == "ping":
            boot.pings.written(token.number, acknowledged=acknowledged, now=now)
        elif token.what == "gone":
            self._gone_at = now.boot_ms + ms(self._timings.resend_after)
            self.phase = Phase.GONE if acknowledged else self.phase
        elif (
            boot.lease.written(token.number, acknowledged=acknowledged, now=now)
            and self.phase is Phase.REGISTERING
        ):
            self.phase = Phase.READING_EPOCH
            self._out.append(ReadEpoch(boot.id))

    def _progress(self, progress: Progress, _: Now) -> None:
        if self._boot is not None:
            self._boot.progress(progress)

    def _limits_heard(self, heard: LimitsHeard, now: Now) -> None:
        if self._boot is not None:
            self._boot.limits_heard(heard, now)

    def _call_ended(self, ended: CallEnded, now: Now) -> None:
        if self._boot is not None:
            self._boot.call_ended(ended, now)
            self._healthy = self._boot.healthy

    def _backend_seen(self, seen: BackendSeen, now: Now) -> None:
        self._healthy = seen.healthy
        if self._boot is not None:
            self._boot.set_healthy(seen.healthy, now)

    def _gauges_seen(self, seen: GaugesSeen, now: Now) -> None:
        self._samples += 1
        self._gauges = replace(seen.gauges, sample=self._samples), now.boot_ms
        if self._boot is not None:
            self._boot.gauges = self._gauges

    def _stop_asked(self, _: StopAsked, now: Now) -> None:
        """The grace counts from now, also after an operator's drain."""
        if self._stopping:
            return
        self._stopping, self._drain_since = True, now.boot_ms
        if self._boot is not None:
            self._boot.leaving = True
            self._boot.drain(now)

    def _of(self, boot: str) -> Boot | None:
        """The present boot if it is this one and still obeys."""
        present = self._boot
        if present is None or present.id != boot or self.phase in _SAID_GOODBYE:
            return None
        return present

    _TAKES: dict[type, Callable[..., None]] = {  # noqa: RUF012 - a table, never changed
        LaneFound: _lane_found,
        EpochRead: _epoch_read,
        LaneRead: _lane_read,
        LaneLost: _lane_lost,
        Written: _written,
        Progress: _progress,
        LimitsHeard: _limits_heard,
        CallEnded: _call_ended,
        BackendSeen: _backend_seen,
        GaugesSeen: _gauges_seen,
        StopAsked: _stop_asked,
    }
