"""Line and bar charts as SVG text. Called by simulation_plots; knows nothing of what is drawn.

Drawn here and not by a library: those that are kept well weigh as much as all else that the program needs. Invariant:
the same charts make the same bytes; texts stay texts; a line is told by its dashes as well as by its colour.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from math import ceil, floor, log10

Points = Sequence[tuple[float, float]]
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#000000")
"""Okabe and Ito's, which people with any colour vision tell apart; the yellow darker, to be seen on white."""
_DASHES = ("", "7 3", "7 3 2 3", "2 2")
_WIDTH, _LEGEND, _HEAD, _GAP = 900, 150, 40, 12
_LEFT, _BOTTOM, _TOP = 62, 46, 26
_MOST_TICKS = 6
_FONT = 'font-family="sans-serif" font-size="12" fill="#222"'


@dataclass(frozen=True, slots=True)
class Line:
    """`look`: its number among the lines that are told apart. `band`: up to where the area above it is tinted. `limit`: it is
    one, drawn thicker and dotted.
    """

    name: str
    points: Points
    look: int
    band: Points = ()
    limit: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes, with units in their labels, both from 0. `bars`: by name the heights over each of `places`, instead
    of lines. `least_top`: the y axis goes at least so far.
    """

    x: str
    y: str
    title: str = ""
    lines: Sequence[Line] = ()
    bars: Mapping[str, Sequence[float]] = field(default_factory=dict)
    places: Sequence[str] = ()
    least_top: float = 0

    @property
    def top(self) -> float:
        """The greatest value."""
        values = [y for line in self.lines for _, y in (*line.points, *line.band)]
        return max(
            [self.least_top, *values, *(height for heights in self.bars.values() for height in heights)]
        )

    @property
    def right(self) -> float:
        """The greatest x."""
        return max((x for line in self.lines for x, _ in line.points), default=0)


def ticks_to(most: float) -> list[float]:
    """Round numbers from 0 to at least `most`, a handful of them."""
    if most <= 0:
        return [0, 1]
    power = floor(log10(most)) - 1
    steps = ((factor, float(f"{factor}e{power}")) for factor in (1, 2, 5, 10, 20, 50))
    factor, step = next(pair for pair in steps if most / pair[1] <= _MOST_TICKS - 1)
    return [float(f"{number * factor}e{power}") for number in range(ceil(most / step) + 1)]


def picture(title: str, rows: Sequence[Sequence[Panel]], *, height: int, same_scale: bool = False) -> str:
    """An SVG document. `height`: of a row; `same_scale`: the panels of a row share their y axis."""
    whole = _HEAD + height * len(rows)
    size = f'width="{_WIDTH}" height="{whole}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} viewBox="0 0 {_WIDTH} {whole}" {_FONT}>',
        f"<title>{escape(title)}</title>",
        f'<rect {size} fill="#fff"/>',
        _text(_LEFT, 24, title, "start", size=15),
        *_legend([line for row in rows for panel in row for line in _told(panel)]),
    ]
    for number, row in enumerate(rows):
        width = (_WIDTH - _LEGEND) / len(row)
        top = max(panel.top for panel in row)
        for place, panel in enumerate(row):
            frame = _Frame(place * width, _HEAD + number * height, width, height)
            parts += frame.draw(panel, top if same_scale else panel.top)
    return "\n".join([*parts, "</svg>", ""])


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where a panel is, with its labels."""

    left: float
    top: float
    width: float
    height: float

    def draw(self, panel: Panel, top: float) -> list[str]:
        """All of it."""
        ys, xs = ticks_to(top), ticks_to(panel.right)
        middle = self.left + _LEFT + self._across / 2
        parts = [_text(middle, self.top + 16, panel.title, "middle", size=13)] if panel.title else []
        parts += [_text(middle, self.top + self.height - 8, panel.x, "middle")]
        parts += [_upright(self.left + 16, self.top + _TOP + self._down / 2, panel.y)]
        for tick in ys:
            y = self._y(tick, ys[-1])
            parts.append(
                f'<path d="M{self.left + _LEFT:.1f} {y:.1f}h{self._across:.1f}" stroke="#ddd"/>'
                + _text(self.left + _LEFT - 6, y + 4, f"{tick:g}", "end")
            )
        if panel.bars:
            return [*parts, *self._bars(panel, ys[-1])]
        for tick in xs:
            parts.append(_text(self._x(tick, xs[-1]), self._floor + 16, f"{tick:g}", "middle"))
        return [*parts, *(part for line in panel.lines for part in self._line(line, xs[-1], ys[-1]))]

    @property
    def _across(self) -> float:
        return self.width - _LEFT - _GAP

    @property
    def _down(self) -> float:
        return self.height - _TOP - _BOTTOM

    @property
    def _floor(self) -> float:
        return self.top + self.height - _BOTTOM

    def _x(self, x: float, most: float) -> float:
        return self.left + _LEFT + x / most * self._across

    def _y(self, y: float, most: float) -> float:
        return self._floor - y / most * self._down

    def _line(self, line: Line, right: float, top: float) -> list[str]:
        at = [f"{self._x(x, right):.1f} {self._y(y, top):.1f}" for x, y in line.points]
        above = [f"{self._x(x, right):.1f} {self._y(y, top):.1f}" for x, y in reversed(line.band)]
        colour = COLOURS[line.look % len(COLOURS)]
        parts = (
            [f'<path d="M{"L".join([*at, *above])}Z" fill="{colour}" fill-opacity="0.15"/>'] if above else []
        )
        return [*parts, f'<path d="M{"L".join(at)}" {_stroke(line)}/>'] if at else parts

    def _bars(self, panel: Panel, top: float) -> list[str]:
        step = self._across / max(1, len(panel.places))
        width = 0.8 * step / len(panel.bars)
        parts = []
        for look, heights in enumerate(panel.bars.values()):
            for place, height in enumerate(heights):
                x, y = self.left + _LEFT + (place + 0.1) * step + look * width, self._y(height, top)
                parts.append(
                    f'<rect x="{x:.1f}" y="{y:.1f}" width="{0.9 * width:.1f}" height="{self._floor - y:.1f}" '
                    f'fill="{COLOURS[look % len(COLOURS)]}"/>'
                )
        middles = [self.left + _LEFT + (place + 0.5) * step for place in range(len(panel.places))]
        return [
            *parts,
            *(
                _text(x, self._floor + 16, name, "middle")
                for x, name in zip(middles, panel.places, strict=True)
            ),
        ]


def _told(panel: Panel) -> list[Line]:
    """What the legend says of a panel."""
    return [*panel.lines, *(Line(name, (), look) for look, name in enumerate(panel.bars))]


def _legend(lines: Sequence[Line]) -> list[str]:
    """Beside the panels, where it hides nothing; each name once."""
    parts, x = [], _WIDTH - _LEGEND + 8
    for number, line in enumerate({line.name: line for line in lines}.values()):
        y = _HEAD + 20 + 20 * number
        parts += [f'<path d="M{x} {y}h26" {_stroke(line)}/>', _text(x + 32, y + 4, line.name, "start")]
    return parts


def _stroke(line: Line) -> str:
    dashes = "1 4" if line.limit else _DASHES[line.look % len(_DASHES)]
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    width = 3 if line.limit else 1.8
    return f'fill="none" stroke="{COLOURS[line.look % len(COLOURS)]}" stroke-width="{width}"{dashed}'


def _text(x: float, y: float, text: str, anchor: str, *, size: int = 12) -> str:
    sized = "" if size == 12 else f' font-size="{size}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{sized}>{escape(text)}</text>'


def _upright(x: float, y: float, text: str) -> str:
    return (
        f'<text transform="translate({x:.1f} {y:.1f})rotate(-90)" text-anchor="middle">{escape(text)}</text>'
    )
