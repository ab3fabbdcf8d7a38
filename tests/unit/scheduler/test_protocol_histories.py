from collections import Counter

import pytest

from tests.support.scheduler_runs import History


@pytest.mark.parametrize("first", range(0, 100, 10))
def test_every_accepted_request_ends_once_and_nothing_is_repeated_without_cause(first: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(first, first + 10):
        history = History(seed)
        assert history.run() == [], f"seed {seed}"
        seen.update(history.world.seen)
    assert seen["partition out"], "a history in which nothing goes wrong proves nothing"
