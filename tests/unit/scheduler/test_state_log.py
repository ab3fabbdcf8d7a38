"""What a standby keeps of `state`: what compaction leaves, whether the broker has compacted or not."""

from collections.abc import Mapping
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from headrace.bus.messages import Place, Received
from headrace.scheduler.state_log import StateLog
from tests.support.scheduler.case import Case

NO_WAIT = timedelta()
KEYS = (None, b"a", b"b", b"c")
Written = tuple[bytes | None, bytes | None]


class Reader:
    """A log that is read some records at a time."""

    def __init__(self, records: list[Received]) -> None:
        self.records, self.at = records, 0

    def assign(self, positions: Mapping[Place, int]) -> None:
        """From the beginning."""

    def read(self, _limit: int, _wait: timedelta) -> list[Received]:
        """As LoopReader.read."""
        found = self.records[self.at : self.at + 3]
        self.at += len(found)
        return found

    def pause(self, places: set[Place]) -> None:
        """Nothing is."""

    def position(self, _place: Place) -> int:
        """As LoopReader.position."""
        return self.at

    def close(self) -> None:
        """Nothing is open."""


def kept(written: list[Written]) -> list[tuple[bytes | None, bytes | None]]:
    records = [Received("t", 0, at, 0, value, (), key) for at, (key, value) in enumerate(written)]
    log = StateLog(Case().owner.setting, Reader(records))
    log.start()
    while log.position < len(records):
        log.read(NO_WAIT)
    return [(each.key, each.value) for each in log.newest()]


@given(st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from([None, b"1", b"2"])), max_size=20))
def test_the_newest_of_each_key_is_kept_and_nothing_of_a_deleted_one(written: list[Written]) -> None:
    newest = {key: value for key, value in written if key is not None}
    assert dict(kept(written)) == {key: value for key, value in newest.items() if value is not None}


def test_they_come_in_the_order_in_which_they_were_written_last() -> None:
    assert kept([(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", b"1")]) == [
        (b"b", b"1"),
        (b"a", b"2"),
        (b"c", b"1"),
    ]
