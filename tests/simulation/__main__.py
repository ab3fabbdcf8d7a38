"""`make simulate-faults`: many seeds on all cores, with totals; or one seed's history. Exits 1 when anything is violated."""

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.seeds import SOMETIMES, told
from tests.simulation.world.run import Verdict, run_seed
from tests.support.entry import parser_of

_TOLD_MOST = 3


def seeds_of(text: str) -> range:
    """`1000..2000`, or a number of seeds from 0. Raises ValueError."""
    first, dots, last = text.partition("..")
    return range(int(first), int(last)) if dots else range(int(first))


def short(seed: int) -> Verdict:
    """A run without its history unless that is wanted: it has to travel between processes."""
    verdict = run_seed(seed)
    return verdict if verdict.bad else Verdict(seed, [], verdict.seen, [], verdict.ended_ms, verdict.events)


def verdicts(seeds: range) -> Iterator[Verdict]:
    """All of them, on all cores."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(short, seeds, chunksize=10)


def simulate(seeds: range) -> int:
    """Run them and print what came of it; how many went wrong."""
    say = sys.stdout.write
    began, wrong, virtual_ms = time.monotonic(), 0, 0
    seen: Counter[str] = Counter()
    for verdict in verdicts(seeds):
        seen.update(verdict.seen)
        virtual_ms += verdict.ended_ms
        if verdict.bad:
            wrong += 1
            if wrong <= _TOLD_MOST:
                say(told(verdict) + "\n")
            else:
                say(f"seed {verdict.seed}: {verdict.bad[0]}\n")
    for what, times in sorted(seen.items()):
        say(f"{times:9} {what}\n")
    took = time.monotonic() - began
    cores, rate = os.cpu_count() or 1, len(seeds) / took * 60
    say(
        f"seeds {seeds.start}..{seeds.stop}: {len(seeds)} runs, {wrong} violated, {virtual_ms / 1000:,.0f} s of "
        f"virtual time in {took:.0f} s on {cores} cores: {rate:.0f} a minute\n"
    )
    missed = [what for what in SOMETIMES if not seen[what]]
    if missed:
        say(f"never met: {', '.join(missed)}\n")
    return wrong


def main() -> int:
    """The command line."""
    parser = parser_of(__spec__, __doc__)
    parser.add_argument("--seeds", type=seeds_of, default=range(2_000), help="1000..2000, or how many from 0")
    parser.add_argument("--history", type=int, help="print this seed's history instead")
    given = parser.parse_args()
    if given.history is not None:
        verdict = run_seed(given.history)
        sys.stdout.write(told(verdict, most=10**6) + "\n")
        return bool(verdict.bad)
    return bool(simulate(given.seeds))


if __name__ == "__main__":
    sys.exit(main())
