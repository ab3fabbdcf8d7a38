"""Where requests went is known for a day, of so many as an owner can read at its claim."""

from headrace.scheduler.state.rerouted import KEPT_MINUTES, Rerouted
from tests.support.scheduler.two_pools import AWAY


def test_where_requests_went_is_known_for_a_day_of_so_many_as_an_owner_can_read_at_its_claim() -> None:
    went, most, per_minute = Rerouted(), 200_000, 2_000
    for minute in range(150):
        for number in range(per_minute):
            went.add(f"{minute}/{number}", AWAY, minute)
        gone = went.forget_before(minute, since=0)
        assert all(went.piece(*piece) is None for piece in gone)
    known = sum(f"{minute}/{number}" in went for minute in range(150) for number in range(per_minute))
    assert most - 500 < known <= most
    assert (went.get("40/0"), went.get("60/0"), went.get("149/0")) == (None, AWAY, AWAY)
    assert len(went.forget_before(100 + KEPT_MINUTES + 1, since=0)) == 51 * per_minute // 500
    assert (went.get("100/0"), went.get("101/0")) == (None, AWAY)
