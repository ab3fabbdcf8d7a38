"""Charts: axes that hold what is drawn, round numbers at them, and texts that can't break out of the document."""

import re
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.charts import Line, Panel, picture, ticks_to


@given(st.floats(min_value=1e-9, max_value=1e12))
def test_ticks_are_a_handful_of_round_numbers_that_reach_far_enough(most: float) -> None:
    ticks = ticks_to(most)
    assert 2 <= len(ticks) <= 6
    assert ticks[0] == 0
    assert ticks[-1] >= most * (1 - 1e-9)
    assert ticks[-2] < most * (1 + 1e-9)
    assert f"{ticks[1]:e}"[0] in "125"


def test_nothing_to_draw_has_axes_as_well() -> None:
    assert ticks_to(0) == [0, 1]
    assert "<svg" in picture("empty", [[Panel("x", "y", lines=[Line("a", [], 0)])]], height=200)


def drawn(*panels: Panel, **more: bool) -> str:
    return picture("t", [list(panels)], height=300, **more)


def test_what_is_drawn_stays_inside_its_panel() -> None:
    points = [(0.0, 3.0), (5.0, 97.0), (9.9, 0.0)]
    text = drawn(Panel("x", "y", lines=[Line("a", points, 0, [(x, y + 2) for x, y in points])]))
    for path in re.findall(r'd="M([^hZ"]+)', text):
        for x, y in (each.split() for each in path.split("L")):
            assert 0 <= float(x) <= 900
            assert 40 <= float(y) <= 340


def test_panels_of_one_scale_draw_the_same_value_at_the_same_height() -> None:
    low, high = (
        Panel("x", "y", lines=[Line("a", [(1.0, 1.0)], 0), Line("b", [(1.0, top)], 1)]) for top in (1.0, 50.0)
    )
    heights = re.findall(
        r'd="M[\d.]+ ([\d.]+)" fill="none" stroke="#0072b2"', drawn(low, high, same_scale=True)
    )
    assert len(set(heights)) == 1
    apart = re.findall(r'd="M[\d.]+ ([\d.]+)" fill="none" stroke="#0072b2"', drawn(low, high))
    assert len(set(apart)) == 2


def test_names_are_texts_whatever_is_in_them() -> None:
    name = "<script>&'\"</svg>"
    text = drawn(
        Panel(name, name, name, [Line(name, [(1, 1)], 0)]), Panel("x", "y", bars={name: [1]}, places=[name])
    )
    found = [each.text for each in ET.fromstring(text).iter() if each.tag.endswith("}text")]  # noqa: S314 our own
    assert found.count(name) == 5


def test_lines_are_told_apart_without_colours() -> None:
    text = drawn(Panel("x", "y", lines=[Line(str(n), [(0, n), (1, n)], n) for n in range(4)]))
    dashes = re.findall(r'stroke-width="1.8"( stroke-dasharray="[^"]+")?', text)
    assert len(set(dashes)) == 4
