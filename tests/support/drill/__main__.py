"""`make drill SEED=7 KILLS=40`: kills and pauses everything under load, then judges. See docs/drills.md."""

import random
import sys
from argparse import Namespace
from pathlib import Path

from tests.support.drill.run import Order, Verdict, drill
from tests.support.drill.stage import new_folder
from tests.support.entry import parser_of
from tests.support.postgres import programs

SECONDS_A_KILL, LEAST_S, REQUESTS_A_SECOND = 5.0, 60.0, 7
DATABASES = ("auto", "sqlite", "postgres")


def _arguments() -> Namespace:
    parser = parser_of(__spec__, __doc__)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--kills", type=int, default=12, help="blows of all kinds")
    parser.add_argument("--requests", type=int, default=None)
    parser.add_argument("--seconds", type=float, default=None, help="how long blows and load last")
    parser.add_argument(
        "--database", choices=DATABASES, default="auto", help="auto: by the seed, where it is here"
    )
    parser.add_argument(
        "--lasting",
        action="store_true",
        help="end no first process of a service: its memory is told over the whole run",
    )
    parser.add_argument("--folder", type=Path, help="kept, for a look afterwards; must be empty")
    return parser.parse_args()


def _order(given: Namespace) -> Order:
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    seconds = given.seconds or max(LEAST_S, given.kills * SECONDS_A_KILL)
    requests = given.requests or int(seconds * REQUESTS_A_SECOND)
    by_seed = seed % 2 == 1 and programs() is not None
    postgres = by_seed if given.database == "auto" else given.database == "postgres"
    return Order(seed, given.kills, requests, seconds, postgres, given.lasting)


def main() -> int:
    """The command line; the exit status is the verdict."""

    def say(line: str) -> None:
        print(line, flush=True)  # noqa: T201

    given = _arguments()
    order, folder = _order(given), new_folder(given.folder)
    say(f"{order}; logs in {folder}")
    outcome = drill(order, folder, say)
    for sentence in outcome.wrong:
        say(f"WRONG {sentence}")
    if outcome.counted.lacking:
        say(f"it met no {', nor '.join(outcome.counted.lacking)}")
    told = {
        Verdict.HELD: "held",
        Verdict.VIOLATED: "VIOLATED",
        Verdict.VOID: "VOID: nothing broke, and too little was tried to say that it holds",
    }
    say(
        f"seed {order.seed}: {told[outcome.verdict]}; judge again: python -m tests.support.checker {folder}/history.jsonl"
    )
    return outcome.verdict


if __name__ == "__main__":
    sys.exit(main())
