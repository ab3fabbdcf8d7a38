"""Which blows a seed deals: victim, instant and manner, drawn before the drill begins. Called by run.

Invariant: the same seed, kills and seconds are the same plan; the blows that a run needs in order to count come first, so
that a plan of at least that many has each of them.
"""

import random
from dataclasses import dataclass, replace
from enum import StrEnum


class Action(StrEnum):
    """What is done to a victim."""

    KILL = "kill -9"
    PAUSE = "pause"
    END = "end"
    CUT_SILENT = "cut off silently"
    CUT_SLAMMED = "cut off by resets"
    ROLL = "hard restart, one after the other"
    LOCK = "lock"


@dataclass(frozen=True, slots=True)
class Blow:
    """What happens to whom, `at_s` after the start; `gap_s`: how long it stays so."""

    at_s: float
    victim: str
    action: Action
    gap_s: float


@dataclass(frozen=True, slots=True)
class Card:
    """One kind of blow. `gaps` in seconds, between which one is drawn; `weight` against the other cards."""

    victims: tuple[str, ...]
    action: Action
    gaps: tuple[float, float]
    weight: int = 2


OWNER = "the owner"
"""Whichever scheduler owns the pool when the blow falls."""
SCHEDULERS = ("scheduler", "scheduler-2")
WORKERS = ("inference-worker", "inference-worker-2", "inference-worker-3")
DELIVERIES = ("result-delivery", "result-delivery-2")
INGESTS = ("ingest", "ingest-2")
_INSTEAD = {names[0]: names[1] for names in (SCHEDULERS, WORKERS, DELIVERIES, INGESTS)}
SERVICES = (*SCHEDULERS, *WORKERS, *DELIVERIES, *INGESTS)
ENGINES = ("engine", "engine-2")
BROKERS, ALL_BROKERS, DATABASE = ("broker-1", "broker-2", "broker-3"), "all brokers", "database"
PAST_THE_LEASE = (6.0, 9.0)
"""A worker is dead after 8 ticks (4 s), an owner after 3 s of silence and a claim."""

NEEDED = (
    Card(WORKERS, Action.PAUSE, PAST_THE_LEASE),
    Card(WORKERS, Action.KILL, (4, 6)),
    Card(WORKERS, Action.PAUSE, PAST_THE_LEASE),
    Card((OWNER,), Action.KILL, (1, 4)),
)
"""What lets a run count, one after the other, each alone: a worker that dies while nobody owns the pool shows little."""
FIRST_S, APART_S = 6.0, 10.0
CARDS = (
    *NEEDED,
    Card((OWNER,), Action.PAUSE, PAST_THE_LEASE),
    Card(SCHEDULERS, Action.KILL, (0, 3), 4),
    Card(WORKERS, Action.KILL, (0, 6), 6),
    Card(DELIVERIES, Action.KILL, (0, 6), 4),
    Card(INGESTS, Action.KILL, (0, 3), 4),
    Card(ENGINES, Action.KILL, (0, 4), 4),
    Card(BROKERS, Action.KILL, (0, 3), 3),
    Card(SCHEDULERS, Action.PAUSE, (2, 12)),
    Card(DELIVERIES, Action.PAUSE, (2, 12)),
    Card(INGESTS, Action.PAUSE, (2, 6)),
    Card(ENGINES, Action.PAUSE, (2, 8)),
    Card(WORKERS, Action.PAUSE, (2, 35), 1),
    Card(BROKERS, Action.PAUSE, (2, 12)),
    Card((*SCHEDULERS, OWNER), Action.END, (0, 2)),
    Card(WORKERS, Action.END, (0, 2), 3),
    Card(DELIVERIES, Action.END, (0, 2)),
    Card(INGESTS, Action.END, (0, 2)),
    Card(SERVICES, Action.CUT_SILENT, (2, 12), 4),
    Card(SERVICES, Action.CUT_SLAMMED, (2, 12), 3),
    Card(ENGINES, Action.CUT_SILENT, (1, 6), 1),
    Card(ENGINES, Action.CUT_SLAMMED, (1, 6), 1),
    Card((DATABASE,), Action.LOCK, (2, 8)),
    Card((DATABASE,), Action.KILL, (1, 6)),
    Card((ALL_BROKERS,), Action.ROLL, (0, 1), 1),
)


def planned(seed: int, kills: int, seconds: float, *, lasting: bool = False) -> list[Blow]:
    """The blows of a seed, in order of time. `lasting`: the first process of each service is spared what would end it."""
    dice = random.Random(seed)  # noqa: S311 - a seed is a history
    first = list(NEEDED[:kills])
    dice.shuffle(first)
    apart_s = min(APART_S, (seconds - 2 * FIRST_S) / len(NEEDED))
    blows = [_dealt(dice, card, FIRST_S + number * apart_s) for number, card in enumerate(first)]
    others = dice.choices(CARDS, [card.weight for card in CARDS], k=kills - len(first))
    began_s = FIRST_S + len(first) * apart_s
    blows += [_dealt(dice, card, dice.uniform(began_s, seconds - FIRST_S)) for card in others]
    blows = [_sparing(blow) for blow in blows] if lasting else blows
    return sorted(blows, key=lambda blow: blow.at_s)


def _sparing(blow: Blow) -> Blow:
    """An owner that would be ended is paused until another has the pool; else the second of the service takes the blow."""
    if blow.action not in {Action.KILL, Action.END}:
        return blow
    if blow.victim == OWNER:
        return replace(blow, action=Action.PAUSE, gap_s=PAST_THE_LEASE[1])
    return replace(blow, victim=_INSTEAD.get(blow.victim, blow.victim))


def _dealt(dice: random.Random, card: Card, at_s: float) -> Blow:
    return Blow(at_s, dice.choice(card.victims), card.action, dice.uniform(*card.gaps))
