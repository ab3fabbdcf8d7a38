"""Threads share the C heap's few arenas, so that what one gave back is what the next one takes."""

import subprocess
import sys

PROGRAM = """
import ctypes, sys, threading
from headrace.runtime.heaps import keep_heaps_few

if sys.argv[1] == "few":
    assert keep_heaps_few()
malloc = ctypes.CDLL(None).malloc
malloc.restype = ctypes.c_void_p
together = threading.Barrier(12)

def allocate():
    together.wait()
    for _ in range(2_000):
        malloc(1_000)
    together.wait()

threads = [threading.Thread(target=allocate) for _ in range(12)]
for thread in threads: thread.start()
for thread in threads: thread.join()
heaps = set()
for line in open("/proc/self/maps"):
    first, last = (int(end, 16) for end in line.split()[0].split("-"))
    if first % (64 << 20) == 0 and " rw-p " in line and len(line.split()) == 5:
        heaps.add(first)
print(len(heaps))
"""


def heaps(how: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_a_dozen_threads_have_few_heaps() -> None:
    assert heaps("few") < heaps("as it is")
    assert heaps("few") <= 2


WORKED_OFF = """
from datetime import timedelta
from headrace.runtime.clock import ManualClock
from headrace.runtime.heaps import SpareHeap, keep_heaps_few

def resident_mib():
    with open("/proc/self/statm") as told:
        return int(told.read().split()[1]) * 4096 // 2**20

assert keep_heaps_few()
clock = ManualClock()
heap = SpareHeap(clock)
empty = resident_mib()
for _ in range(2):
    bodies, small = [], []
    for _ in range(5_000):
        bodies.append(bytes(30_000))
        small.append(bytes(600))
    bodies.clear()
    heap.turned()
    kept = resident_mib() - empty
    clock.advance(timedelta(minutes=1))
    heap.turned()
    print(kept, resident_mib() - empty)
"""


def test_what_was_worked_off_goes_back_to_the_kernel_within_a_minute() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WORKED_OFF], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        kept, after = map(int, line.split())
        assert kept > 100
        assert after < 30
