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
