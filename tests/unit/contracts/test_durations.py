from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts import durations


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30s", timedelta(seconds=30)),
        ("500ms", timedelta(milliseconds=500)),
        ("10m", timedelta(minutes=10)),
        ("1h30m", timedelta(hours=1, minutes=30)),
        (" 1.5 s ", timedelta(seconds=1.5)),
        ("2d", timedelta(days=2)),
        ("PT30S", timedelta(seconds=30)),
        ("P1DT2H3M4.5S", timedelta(days=1, hours=2, minutes=3, seconds=4.5)),
    ],
)
def test_a_duration_is_read_as_people_and_as_iso_8601_write_it(text: str, expected: timedelta) -> None:
    assert durations.parse(text) == expected


@pytest.mark.parametrize("wrong", ["30", "", "-5s", "s", "5 parsecs", "P", "PT", "1m30", 30, 1.5, None])
def test_a_duration_without_a_unit_or_sense_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="duration with its unit"):
        durations.parse(wrong)


@given(st.timedeltas(min_value=timedelta(), max_value=timedelta(days=100_000)))
def test_every_duration_survives_being_written_and_read(duration: timedelta) -> None:
    assert durations.parse(durations.render(duration)) == duration


def test_a_duration_too_long_for_the_machine_is_refused_with_a_sentence() -> None:
    with pytest.raises(ValueError, match="less than"):
        durations.parse("99999999999d")
