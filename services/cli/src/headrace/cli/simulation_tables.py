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
    """Callers by tier and by tenant, then the pool with its policies side by side."""
    yield Shown("Waits by tier", ("policy", "tier", *_WAITS), list(_by(summaries, tenants=False)))
    if any(len(summary.tenants) > 1 for summary in summaries.values()):
        yield Shown("Waits by tenant", ("policy", "tenant", *_WAITS), list(_by(summaries, tenants=True)))
    pools = [_pool(summary) for summary in summaries.values()]
    yield Shown("The pool", ("figure", *summaries), list(zip(_POOL, *pools, strict=True)))


_WAITS = ("requests", "wait p50", "p95", "p99", "on time")
# A row each, since side by side they are 250 columns wide.
_POOL = (
    "on time", "goodput of capacity", "slots busy", "idle while work waits", "engine queue p95",
    "fairness gap, units", "its bound, units", "gap in pool time", "its bound, in pool time", "dropped", "cancelled", "left",
    "prefix hits", "tokens a second",
)  # fmt: skip


def _by(summaries: Mapping[str, Summary], *, tenants: bool) -> Iterator[tuple[str, ...]]:
    for name, summary in summaries.items():
        groups = summary.tenants if tenants else {**summary.tiers, "all": summary.all}
        busiest = sorted(groups, key=lambda group: -(groups[group].requests.mean or 0))[:_MOST_TENANTS]
        for group in busiest if tenants else groups:
            yield (name, group, *_waits(groups[group]))


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
    return f"{mean.mean / 1000:.2f} s" + (f" ±{mean.within / 1000:.2f}" if mean.within else "")


def _units(micro: int | None) -> str:
    return "none" if micro is None else f"{micro // 1_000_000:,}"


def _span(seconds: float | None) -> str:
    return "none" if seconds is None else f"{seconds:.1f} s"
