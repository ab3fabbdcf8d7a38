"""A worker that answers each `run` at once and as fast as it can, for as long as it runs. Started by benchmarks.releases;
benchmarks.busy lets its answers take time.

    python -m tests.benchmarks.answering_worker BOOTSTRAP PREFIX POLICY
"""

import time
from datetime import timedelta
from pathlib import Path

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.bus.messages import Received, message_of
from headrace.bus.ports import END
from headrace.contracts.codec import decode
from headrace.contracts.commands import Fence, Run
from headrace.contracts.ids import AttemptId, boot_id
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import AttemptRecord, Verdict
from headrace.contracts.reports import Gauges, Held, Report
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Times, Usage
from headrace.runtime.policy_file import load_policy
from tests.support.entry import parser_of
from tests.support.scheduler.live import Pool

SLOTS, BATCH = 2_000, 1_000
REPORT_S = 0.5
PATIENCE = timedelta(milliseconds=5)


class AnsweringWorker:
    """Holds what it was given until the outcome is acknowledged. It writes no results: no scheduler reads them."""

    def __init__(self, pool: Pool, *, limit: int = SLOTS, patience: timedelta = PATIENCE) -> None:
        """`patience`: how long a turn waits for a command."""
        self._pool, self._epoch = pool, 0
        self._limit, self._patience = limit, patience
        self._producer = pool.bus.loop_producer("worker", delivery_timeout=timedelta(seconds=10))
        self._reader = pool.bus.loop_reader("worker")
        self._lane = pool.place(TopicKind.WORK, 0)
        pool.assign(self._reader, {self._lane: END})
        self._position = self._reader.position(self._lane)
        self._boot = boot_id(pool.clock.now().wall_ms, b"w" * 10)
        self._held: dict[AttemptId, Run] = {}
        self._reported = 0.0

    def turn(self) -> None:
        """Obey, answer, report."""
        for received in self._reader.read(BATCH, self._patience):
            self._position = received.offset + 1
            self._obey(received)
        for confirmation in self._producer.confirmations():
            if isinstance(confirmation.token, AttemptId):
                self._held.pop(confirmation.token, None)
        if time.monotonic() - self._reported >= REPORT_S:
            self._report()

    def took(self, run: Run) -> None:
        """It was given this one."""
        now_ms = self._pool.clock.now().wall_ms
        self.answer(run, Times(started_ms=now_ms, first_token_ms=now_ms, finished_ms=now_ms))

    def gauges(self) -> Gauges | None:
        """What its engine says; None: it has no metrics."""
        return None

    def _obey(self, received: Received) -> None:
        command = decode(TopicKind.WORK, received.header)
        if isinstance(command, Fence):
            self._epoch = max(self._epoch, command.epoch)
            self._report()
        elif isinstance(command, Run) and command.boot == self._boot:
            self._held[command.attempt] = command
            self.took(command)

    def answer(self, run: Run, times: Times) -> None:
        """Write that it has succeeded."""
        request = run.request
        outcome = AttemptRecord(
            id=request.id, tenant=request.tenant, tier=request.tier, origin=run.origin, attempt=run.attempt,
            attempts=run.attempts, verdict=Verdict.DONE, status=Status.SUCCEEDED, worker="w", boot=self._boot,
            charge=run.charge, usage=Usage(prompt_tokens=200, completion_tokens=10), model="m",
            times=times,
        )  # fmt: skip
        place = self._pool.place(TopicKind.ATTEMPTS, request.partition)
        self._producer.send(message_of(place, outcome), run.attempt)

    def close(self) -> None:
        """Let go."""
        self._producer.close()
        self._reader.close()

    def _report(self) -> None:
        self._reported = time.monotonic()
        held = tuple(
            Held(
                attempt=run.attempt, id=run.request.id, tenant=run.request.tenant, tier=run.request.tier,
                origin=run.origin, attempts=run.attempts, charge=run.charge, running=True,
            )
            for run in self._held.values()
        )  # fmt: skip
        report = Report(
            worker="w", boot=self._boot, epoch=self._epoch, lane=self._lane.partition, position=self._position,
            limit=self._limit, held=held, gauges=self.gauges(),
        )  # fmt: skip
        self._producer.send(message_of(self._pool.place(TopicKind.WORKERS), report), None)


def main(bootstrap: str, prefix: str, policy: Path) -> None:
    worker = AnsweringWorker(Pool(KafkaBus(KafkaConnection(bootstrap)), prefix, load_policy(policy)))
    while True:
        worker.turn()


if __name__ == "__main__":
    parser = parser_of(__spec__, __doc__)
    parser.add_argument("bootstrap", help="brokers, host:port")
    parser.add_argument("prefix", help="what topic names begin with")
    parser.add_argument("policy", type=Path, help="the policy file")
    main(**vars(parser.parse_args()))
