"""The checker's own copy of the request's lifecycle, so that a wrong move in the product's table is a wrong move here.

Observers miss states: what is asked is whether a path exists.
"""

QUEUED = "queued"
TERMINAL = frozenset({"succeeded", "failed", "expired", "cancelled", "dead_lettered"})
MOVES: dict[str, frozenset[str]] = {
    "queued": TERMINAL | {"dispatched"},
    "dispatched": TERMINAL | {"running", "queued"},
    "running": TERMINAL | {"queued"},
    **dict.fromkeys(TERMINAL, frozenset[str]()),
}


def path_exists(before: str, after: str) -> bool:
    """Whether `after` may be seen some time after `before`. A word that is no state is never reached."""
    if before == after:
        return after in MOVES
    seen, todo = {before}, [before]
    while todo:
        for status in MOVES.get(todo.pop(), frozenset()) - seen:
            seen.add(status)
            todo.append(status)
    return after in seen - {before}
