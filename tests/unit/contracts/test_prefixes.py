"""Hashes of a prompt's beginnings as records carry them: any text reads as some."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.prefixes import ENDS, HASH_CHARACTERS, hashes_of


@given(st.text("aé_-9", max_size=HASH_CHARACTERS * len(ENDS)))
def test_any_text_that_a_record_takes_reads_as_so_many_hashes_at_most(text: str) -> None:
    found = hashes_of(text)
    assert len(found) == len(text) // HASH_CHARACTERS <= len(ENDS)
    assert text.startswith("".join(found))
    assert all(len(each) == HASH_CHARACTERS for each in found)


def test_the_ends_grow_and_leave_no_gap_of_more_than_half() -> None:
    assert ENDS[0] == 1
    assert all(before < after <= 2 * before for before, after in pairwise(ENDS))
