"""`make mutants`: lists every wrong version of the protocol with what kills it. Exits 1 when one survives."""

import sys

from tests.simulation.mutants.every import EVERY, judged
from tests.support.entry import parser_of


def main() -> int:
    """Two lines for each."""
    parser = parser_of(__spec__, __doc__)
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help="only those with one of these in their name; default: all"
    )
    words = parser.parse_args().words
    chosen = [mutant for mutant in EVERY if not words or any(word in mutant.name for word in words)]
    survived = 0
    for mutant in chosen:
        found = judged(mutant)
        survived += found is None
        by = f"seed {mutant.killed_by}" if isinstance(mutant.killed_by, int) else mutant.killed_by
        sys.stdout.write(f"{mutant.name:36} {'SURVIVED' if found is None else 'killed'} by {by}\n")
        sys.stdout.write(f"{'':36} {mutant.breaks}: {(found or 'nothing was wrong')[:110]}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(chosen)} mutants, {survived} survived\n")
    return bool(survived) or not chosen


if __name__ == "__main__":
    sys.exit(main())
