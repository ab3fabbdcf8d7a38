"""What `headrace simulate` shows people: tables of summaries. Called by that command.

Invariant: every figure has its unit; a mean over several seeds says by how much it may be off at 95 %.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from headrace.scheduler.simulate.over_seeds import Group, Mean, Summary

_MOST_TENANTS = 20


class Shown(NamedTuple):
    """One table."""

    title: str
    columns: Sequence[str]
    rows: list[tuple[str, ...]]


def tables_of(summaries: Mapping[str, Summary]) -> Iterator[Shown]:
    """Callers by tier and by tenant, a table for each policy; then the pool with its policies side by side."""
    for name, summary in summaries.items():
        tiers = {**summary.tiers, "all": summary.all}
        yield Shown(f"Waits by tier: {name}", ("tier", *_WAITS), list(_rows(tiers)))
    for name, summary in summaries.items():
        if len(summary.tenants) > 1:
            busiest = sorted(summary.tenants.items(), key=lambda each: -(each[1].requests.mean or 0))
            yield Shown(
                f"Waits by tenant: {name}", ("tenant", *_WAITS), list(_rows(dict(busiest[:_MOST_TENANTS])))
            )
    for part in _side_by_side({name: _pool(summary) for name, summary in summaries.items()}):
        yield Shown("The pool", ("figure", *part), list(zip(_POOL, *part.values(), strict=True)))


def _side_by_side(pools: Mapping[str, tuple[str, ...]]) -> Iterator[dict[str, tuple[str, ...]]]:
    """As many at a time as a terminal has room for, and one at least."""
    part: dict[str, tuple[str, ...]] = {}
    left = room = _COLUMNS - max(map(len, _POOL)) - _APART
    for name, figures in pools.items():
        width = max(map(len, (name, *figures))) + _APART
        if part and width > left:
            yield part
            part, left = {}, room
        part[name] = figures
        left -= width
    yield part


_COLUMNS, _APART = 80, 3
_WAITS = ("requests", "wait p50, s", "p95, s", "p99, s", "on time")
# A row each, since side by side they are 250 columns wide.
_POOL = (
    "on time", "goodput of capacity", "slots busy", "idle while work waits", "engine queue p95",
    "fairness gap, units", "its bound, units", "gap in pool time", "its bound, in pool time", "dropped", "cancelled", "left",
    "prefix hits", "tokens a second",
)  # fmt: skip


def _rows(groups: Mapping[str, Group]) -> Iterator[tuple[str, ...]]:
    return ((name, *_waits(group)) for name, group in groups.items())


def _waits(group: Group) -> tuple[str, ...]:
    return (
        f"{group.requests.mean or 0:.0f}",
        *(_seconds(mean) for mean in (group.p50_ms, group.p95_ms, group.p99_ms)),
        _percent(group.on_time),
    )


def _pool(summary: Summary) -> tuple[str, ...]:
    counts = (summary.dropped, summary.cancelled, summary.under_way)
    return (
        *(_percent(mean) for mean in (summary.all.on_time, summary.goodput, summary.busy, summary.idle)),
        f"{summary.inside_p95.mean or 0:.0f}",
        _units(summary.worst_gap),
        _units(summary.promised_gap),
        _span(summary.worst_gap_s),
        _span(summary.promised_gap_s),
        *(f"{mean.mean or 0:.0f}" for mean in counts),
        _percent(summary.hits),
        f"{summary.tokens.mean or 0:,.0f}",
    )


def _percent(mean: Mean) -> str:
    if mean.mean is None or mean.within is None:
        return "-"
    return f"{100 * mean.mean:.1f} %" + (f" ±{100 * mean.within:.1f}" if mean.within else "")


def _seconds(mean: Mean) -> str:
    if mean.mean is None or mean.within is None:
        return "-"
    decimals = 2 if mean.mean < 10_000 else 1
    return f"{mean.mean / 1000:.{decimals}f}" + (
        f" ±{mean.within / 1000:.{decimals}f}" if mean.within else ""
    )


def _units(micro: int | None) -> str:
    return "none" if micro is None else f"{micro // 1_000_000:,}"


def _span(seconds: float | None) -> str:
    return "none" if seconds is None else f"{seconds:.1f} s"
