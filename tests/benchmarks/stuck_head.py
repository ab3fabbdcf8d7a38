"""One request that doesn't end, and a hundred thousand finished behind it in its partition: what a checkpoint costs.

    python -m tests.benchmarks.stuck_head [REQUESTS]

A real broker, real scheduler processes, production timings. A worker of this process answers everything but the head. Prints
the size of the partition's checkpoint against its limit, and what ran again after a takeover.
"""

import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

from headrace.bus.messages import Received
from headrace.bus.ports import START
from headrace.contracts.checkpoints import Finished
from headrace.contracts.codec import decode
from headrace.contracts.partitions import partition_of
from headrace.contracts.topics import TopicKind
from headrace.devkit.kafka import KafkaCluster
from headrace.scheduler.state.offsets import BLOCK
from tests.benchmarks.takeover import Bench, next_epoch, stands_by_for
from tests.support.entry import count_of, parser_of

TENANT = "a"


class Checkpoints:
    """The newest checkpoint of the head's partition."""

    def __init__(self, bench: Bench, partition: int) -> None:
        self._reader = bench.pool.bus.loop_reader("checkpoints")
        self._partition = partition
        self._newest: tuple[Received, Finished] | None = None
        bench.pool.assign(self._reader, {bench.pool.place(TopicKind.STATE): START})

    def newest(self) -> tuple[int, int]:
        """Offsets finished beyond its prefix, and its size in bytes."""
        for received in self._reader.read(1_000, timedelta()):
            record = decode(TopicKind.STATE, received.header)
            if isinstance(record, Finished) and record.partition == self._partition:
                self._newest = received, record
        if self._newest is None:
            return 0, 0
        received, record = self._newest
        count = sum(bits.bit_count() for bits in map(_as_int, record.beyond.values()))
        return count, len(received.header or b"") + len(received.key or b"")


def _as_int(bits: bytes) -> int:
    return int.from_bytes(bits, "little")


def main(count: int) -> int:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        bench = Bench(stack.enter_context(KafkaCluster(heap="1g")).bootstrap, folder)
        stack.callback(bench.close)
        bench.worker.limit = 256
        partition = partition_of(TENANT, bench.pool.policy.topics.tenant_partitions)
        with bench.scheduler("one") as one:
            bench.work_until(lambda: bench.owners.open_by("one"))
            bench.worker.holding = True
            records = bench.fill(count + 1, (TENANT,))
            head = records[0].id
            bench.worker.stuck.add(head)
            bench.work_until(lambda: bench.worker.ran[head])
            bench.worker.holding = False
            checkpoints = Checkpoints(bench, partition)
            bench.work_until(lambda: checkpoints.newest()[0] >= count, within_s=600)
            finished, size = checkpoints.newest()
            bench.say("finished behind the head", finished, "requests")
            bench.say(f"checkpoint for each {BLOCK} finished", size / -(-count // BLOCK), "bytes", 1024)
            epoch = next_epoch(bench)
            one.kill()
            began = time.monotonic()
        with bench.scheduler("two"):
            bench.work_until(lambda: bench.owners.open_by("two"))
            bench.say("takeover by a fresh process, from the kill", time.monotonic() - began, "s")
            stands_by_for(bench, 10)
            bench.say("epoch of the follower", epoch, "")
            again = sum(bench.worker.ran.values()) - len(bench.worker.ran)
            bench.say("requests that ran twice", again, "requests", 0)
        return bool(bench.missed)


if __name__ == "__main__":
    sys.exit(
        main(
            count_of(
                parser_of(__spec__, __doc__), "requests", 100_000, "finished behind the one that doesn't end"
            )
        )
    )
