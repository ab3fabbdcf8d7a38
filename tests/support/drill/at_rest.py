"""What must hold when a drill's load has ended: nothing held, nothing waiting, all finished, quiet logs. Called by the drill.

Each function returns sentences, none when it holds.
"""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from headrace.devkit.engine.words import chat_tokens
from tests.support.checker.checkpoints import is_finished, last_checkpoint
from tests.support.checker.history import Accepted, History, Record
from tests.support.drill.stage import ENGINE_SEEDS

SHORT, MOST_LINES = 5, 3_000
LOUDEST_LINE = 600
LONGEST_ANSWER = 60
"""Tokens; the load asks for fewer."""


def some(what: str, found: Iterable[object]) -> list[str]:
    """One sentence about all that was found."""
    found = list(found)
    return [f"{what}: {len(found)}, such as {found[:SHORT]}"] if found else []


def unrest(states: list[Record], workers: list[Record], limit: int) -> list[str]:
    """What still waits or is held, by the last record of each tier and worker."""
    last_state = {each.record["tier"]: each.record for each in states if "tier" in each.record}
    reports = [each.record for each in workers if each.record["type"] == "report"]
    last_report = {record["worker"]: record for record in reports}
    slots = [s for s in last_state.values() if s.get("held") or s.get("depth") or s.get("paused_partitions")]
    idle = [r for r in last_report.values() if r.get("held") or not r.get("healthy", True)]
    limits = {state.get("limit") for state in last_state.values()}
    return [
        *some("a queue isn't empty after the load", slots),
        *some("a worker isn't idle after the load", idle),
        *([] if limits == {limit} else [f"the pool's limit is {limits} in the end, not {limit}"]),
    ]


def unfinished(history: History) -> list[str]:
    """Requests that the last checkpoint doesn't call finished."""
    last = last_checkpoint(history)
    return some(
        "not finished in the last checkpoint",
        [
            (each.record.get("id"), each.topic, each.partition, each.offset)
            for each in history.records("requests")
            if not is_finished(last, each.topic, each.partition, each.offset)
        ],
    )


def bad_ends(history: History) -> list[str]:
    """The drill's prompts are harmless, its deadlines far: they succeed, or are cancelled by who asked for it."""
    rows = history.rows("results") or ()
    return some("ended badly", [row for row in rows if row["status"] not in {"succeeded", "cancelled"}])


def wrong_answers(history: History) -> list[str]:
    """An engine's answer is a function of the prompt: a stored text that begins neither engine's is another's, or mixed."""
    prompts = {each.id: each.prompt for each in history.of(Accepted)}
    found = [
        (row["id"], prompts[row["id"]], row["text"][:60])
        for row in history.rows("results") or ()
        if row["id"] in prompts
        and not any(said.startswith(row["text"]) for said in _answers(prompts[row["id"]]))
    ]
    return some("an answer of another prompt, or of two engines", found)


def _answers(prompt: str) -> list[str]:
    """What each engine says to it."""
    return [
        "".join(islice(chat_tokens(f"user: {prompt}", seed=seed), LONGEST_ANSWER))
        for seed in ENGINE_SEEDS.values()
    ]


def loud_logs(folder: Path, most_lines: int = MOST_LINES) -> list[str]:
    """Errors, and floods, in what the services logged."""
    wrong, loud = [], []
    for path in sorted(folder.glob("*.log")):
        lines = path.read_text(errors="replace").splitlines()
        told = [line for line in lines if _is_error(line)]
        wrong += [f"{path.stem}: {line[:LOUDEST_LINE]}" for line in told[:SHORT]]
        if len(lines) > most_lines:
            loud.append((path.stem, len(lines)))
    return [*some("an error in a log", wrong), *some("a flooded log", loud)]


def _is_error(line: str) -> bool:
    return '"level":"error"' in line or '"level":"critical"' in line or "Traceback" in line
