"""The runs behind the pictures of docs/scheduling.md, shorter: headrace keeps what is promised; a simpler policy doesn't."""

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from headrace.scheduler.simulate.comparing import contenders
from tests.benchmarks import guarantees, shown_changes
from tests.benchmarks.guarantees import SCENES
from tests.benchmarks.shown_runs import Shown

SHORT: dict[str, Callable[[], Shown]] = {
    "weights": partial(guarantees.weights, 160),
    "floor": partial(guarantees.floor, 240),
    "slots": partial(guarantees.slots, 120),
    "ceiling": partial(guarantees.ceiling, 120),
    "users": partial(guarantees.users, 90),
    "priorities": partial(guarantees.priorities, 120),
    "overload": partial(guarantees.overload, 700, (1.5,)),
    "flood": partial(guarantees.flood, 60),
    "headroom": partial(guarantees.headroom, 300),
    "owners": partial(shown_changes.owners, 160),
    "policies": partial(shown_changes.policies, 300),
}


def test_each_picture_has_a_short_run_here_and_is_shown() -> None:
    assert set(SHORT) == set(SCENES)
    shown = (Path(__file__).resolve().parents[3] / "docs/scheduling.md").read_text(encoding="utf-8")
    assert [name for name in SCENES if f"(pictures/{name}.svg)" not in shown] == []


@pytest.mark.parametrize("name", SHORT)
def test_a_guarantee_is_kept_and_its_picture_drawn(name: str) -> None:
    shown = SHORT[name]()
    assert [sentence for kept, sentence in shown.judged if not kept] == []
    assert shown.svg.startswith("<svg")
    assert len(shown.svg) < 60_000


@pytest.mark.parametrize("name", SHORT)
def test_who_doesnt_keep_it_is_found_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    simpler = "strict" if name == "floor" else "fifo"
    monkeypatch.setattr(
        "tests.support.scheduler.watched.contenders",
        lambda *of: defaultdict(lambda: contenders(*of)[simpler]),
    )
    assert [sentence for kept, sentence in SHORT[name]().judged if not kept] != []
