"""The single oracle: every rule over one history. Called by drills, simulations, and `python -m tests.support.checker FILE`.

Invariant: a rule judges only what the history has; what nobody looked at breaks no rule, and `coverage` says what there was.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.support.checker import checkpoints, ends, ledger, readers, runs
from tests.support.checker.history import History

Rule = Callable[[History], Iterator[str]]
RULES: dict[str, Rule] = {
    "lost": ends.lost,
    "second outcome": ends.second_outcome,
    "not the first record": ends.first_in_the_log,
    "cancelled unasked": ends.cancelled_unasked,
    "dead without a letter": ends.dead_without_letter,
    "illegal move": readers.illegal_move,
    "wrong text": readers.wrong_text,
    "run again without a reason": runs.run_again,
    "started long after its cancel": runs.late_cancel,
    "ledger against attempts": ledger.ledger_differs,
    "old owner's checkpoint": checkpoints.old_owners_checkpoint,
    "finished without an end": checkpoints.finished_without_end,
}


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule, and one sentence about what broke it."""

    rule: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.sentence}"


def judge(history: History) -> list[Violation]:
    """Everything that is wrong, rule by rule; empty when every promise was kept."""
    return [Violation(name, sentence) for name, rule in RULES.items() for sentence in rule(history)]


def coverage(history: History) -> dict[str, int]:
    """How many entries of each kind the history has; records and rows by topic and table."""
    found = Counter[str]()
    for entry in history.entries:
        name = type(entry).__name__.lower()
        where = getattr(entry, "topic", None) or getattr(entry, "table", None)
        found[f"{name} {where}" if where else name] += 1
    return dict(sorted(found.items()))


def told(violations: list[Violation], most: int = 5) -> list[str]:
    """Sentences for a person: each rule with its number, and the first few of each."""
    counts = Counter(each.rule for each in violations)
    return [
        line
        for rule, count in counts.items()
        for line in (
            f"{rule}: {count}",
            *(f"  {each.sentence}" for each in [v for v in violations if v.rule == rule][:most]),
        )
    ]
