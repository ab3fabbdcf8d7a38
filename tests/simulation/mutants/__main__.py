"""`make mutants`: lists every wrong version of the protocol with what kills it. Exits 1 when one survives."""

import sys

from tests.simulation.mutants.every import EVERY, judged


def main() -> int:
    """One line for each."""
    survived = 0
    for mutant in EVERY:
        found = judged(mutant)
        survived += found is None
        by = f"seed {mutant.killed_by}" if isinstance(mutant.killed_by, int) else mutant.killed_by
        sys.stdout.write(f"{mutant.name:36} {'SURVIVED' if found is None else 'killed'} by {by}\n")
        sys.stdout.write(f"{'':36} {mutant.breaks}: {(found or 'nothing was wrong')[:110]}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(EVERY)} mutants, {survived} survived\n")
    return bool(survived)


if __name__ == "__main__":
    sys.exit(main())
