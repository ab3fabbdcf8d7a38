"""What `headrace queue move` says that it did, and of what it left."""

from headrace.cli.commands.moving import ToPool
from headrace.contracts.selections import Found, Stays

MOVE = ToPool("chat", "small", None)
BEFORE = Found(queued=12, running=0, may_go=9, stay={Stays.KEPT: 2, Stays.TRIED: 1})


def told(after: Found | None, found: Found = BEFORE) -> list[str]:
    return list(MOVE.told(found, after))


def test_a_look_says_what_would_go_and_why_others_would_not() -> None:
    assert told(None) == [
        "nothing was done: --yes moves 9 to small",
        "3 stay in chat:",
        "  2 kept here by the caller's `fallback: false`",
        "  1 given to a worker before",
    ]
    none = Found(queued=1, running=0, may_go=0, stay={Stays.BEEN_THERE: 1})
    assert told(None, none) == [
        "nothing was done: none of them may go",
        "1 stays in chat:",
        "  1 in small before",
    ]


def test_an_order_says_what_went_what_is_left_and_what_came_of_the_others() -> None:
    after = Found(queued=3, running=0, may_go=0, stay={Stays.KEPT: 2, Stays.TRIED: 1}, moved=7)
    assert told(after)[:3] == [
        "7 went to small",
        "2 began to run, or ended, before they could go",
        "3 stay in chat:",
    ]
    assert told(Found(queued=0, running=0, may_go=0, moved=12)) == ["12 went to small"]


def test_what_nobody_knows_is_not_made_up() -> None:
    """An owner of an older version counts neither what went nor why others stay; one that came meanwhile not what went."""
    assert told(Found(queued=3, running=0, may_go=0)) == [
        "9 went to small, or began to run, or ended",
        "3 stay in chat",
    ]


def test_every_reason_fits_a_line_of_a_terminal() -> None:
    found = Found(queued=900, running=0, may_go=0, stay=dict.fromkeys(Stays, 100))
    lines = told(None, found)
    assert len(lines) == 2 + len(Stays)
    assert max(map(len, lines)) <= 80
