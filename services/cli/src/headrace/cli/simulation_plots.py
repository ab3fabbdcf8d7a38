"""Pictures of what `headrace simulate` found, as SVG files. Called by that command where `--plots` names a folder.

Invariant: every axis has its unit, and the same runs make the same bytes. What goes over time is of one seed (`runs`), what
is by tenant of all (`figures`).
"""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from headrace.cli.charts import Line, Panel, picture
from headrace.cli.trouble import Trouble
from headrace.scheduler.simulate.figures import Figures, Waits
from headrace.scheduler.simulate.series import Series
from headrace.scheduler.simulate.world import Sample

Runs = Mapping[str, Series]
_PARTS = 24
"""Of a run: waits and goodput are told for each."""
_MOST_TENANTS = 8
_MINUTE_MS = 60_000
_TIME = "time (minutes)"


def folder_for(path: Path) -> Path:
    """Where pictures go. Call before anything is run for them. Raises Trouble where none can be kept."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Trouble(f"--plots: the folder {path} can't be made ({error.strerror})") from None
    return path


def draw_plots(folder: Path, runs: Runs, figures: Mapping[str, list[Figures]]) -> list[Path]:
    """The pictures, which are told by contender."""
    pictures = {
        "waits-by-tier": _waits_by_tier(runs),
        "waits-by-tenant": _waits_by_tenant(figures),
        "goodput": _goodput(runs),
        "fairness": _fairness(runs),
        "pool": _pool(runs),
    }
    for name, text in pictures.items():
        (folder / f"{name}.svg").write_text(text, encoding="utf-8")
    return [folder / f"{name}.svg" for name in pictures]


def _waits_by_tier(runs: Runs) -> str:
    """A panel for each contender, on one scale."""
    tiers = sorted({tier for run in runs.values() for tier in run.tiers})
    panels = [
        Panel(
            "time of arrival (minutes)",
            "wait (seconds)",
            name,
            [_waits_of(run, tier, look) for look, tier in enumerate(tiers)],
        )
        for name, run in runs.items()
    ]
    title = "Wait for a slot: half of all within the line, 95 % within the band"
    return picture(title, [panels], height=340, same_scale=True)


def _waits_of(run: Series, tier: str, look: int) -> Line:
    parts = run.waits_of(tier, _step_of(run))
    half = [(part.from_ms / _MINUTE_MS, part.p50_ms / 1_000) for part in parts]
    return Line(tier, half, look, [(part.from_ms / _MINUTE_MS, part.p95_ms / 1_000) for part in parts])


def _waits_by_tenant(figures: Mapping[str, list[Figures]]) -> str:
    """The tenants with most requests."""
    counts: Counter[str] = Counter()
    for run in (run for runs in figures.values() for run in runs):
        counts.update({tenant: waits.requests for tenant, waits in run.tenants.items()})
    names = sorted(counts, key=lambda name: (-counts[name], name))[:_MOST_TENANTS]
    label = f"the {len(names)} tenants with most requests" if len(counts) > len(names) else "tenant"
    panels = [
        Panel(
            label,
            "wait (seconds)",
            f"{told} wait no longer than",
            bars={name: [_mean(runs, each, part) for each in names] for name, runs in figures.items()},
            places=names,
        )
        for told, part in (("half of all", _p50), ("95 % of all", _p95))
    ]
    return picture("Wait for a slot, by tenant: the mean over seeds", [panels], height=340)


def _goodput(runs: Runs) -> str:
    lines = [
        Line(
            name,
            [(at_ms / _MINUTE_MS, 100 * share) for at_ms, share in run.goodput(_step_of(run))],
            look,
        )
        for look, (name, run) in enumerate(runs.items())
    ]
    panel = Panel(_TIME, "goodput (% of capacity)", lines=lines, least_top=100)
    return picture("Goodput: slot time that went into requests that were on time", [[panel]], height=340)


def _fairness(runs: Runs) -> str:
    lines = []
    for look, (name, run) in enumerate(runs.items()):
        lines.append(_over_time(name, run, look, lambda sample, run=run: run.seconds_of(sample.gap)))  # type: ignore[misc]
        if run.bound is not None:
            bound, end = run.seconds_of(run.bound), run.length_ms / _MINUTE_MS
            lines.append(Line(f"{name}: bound", [(0, bound), (end, bound)], look, limit=True))
    panel = Panel(_TIME, "gap (seconds of the whole pool's work)", lines=lines)
    return picture("How far two tenants came apart while both had requests waiting", [[panel]], height=340)


def _pool(runs: Runs) -> str:
    of: dict[str, Callable[[Series, Sample], float]] = {
        "slots busy (%)": lambda run, sample: 100 * sample.busy / run.slots,
        "engine queue (requests)": lambda _, sample: sample.inside,
        "waiting (requests)": lambda _, sample: sum(sample.waiting.values()),
    }
    rows = [
        [
            Panel(
                _TIME,
                label,
                lines=[
                    _over_time(name, run, look, lambda sample, run=run, value=value: value(run, sample))  # type: ignore[misc]
                    for look, (name, run) in enumerate(runs.items())
                ],
                least_top=5,
            )
        ]
        for label, value in of.items()
    ]
    return picture("The pool", rows, height=230)


def _over_time(name: str, run: Series, look: int, value: Callable[[Sample], float]) -> Line:
    """Until the last arrival: what comes after it shows nothing of a policy."""
    samples = [sample for sample in run.samples if sample.at_ms <= run.length_ms]
    return Line(name, [(sample.at_ms / _MINUTE_MS, value(sample)) for sample in samples], look)


def _step_of(run: Series) -> int:
    """So that a run has so many parts, of a second at least."""
    return max(1_000, run.length_ms // _PARTS)


def _p50(waits: Waits) -> int | None:
    return waits.p50_ms


def _p95(waits: Waits) -> int | None:
    return waits.p95_ms


def _mean(runs: list[Figures], tenant: str, part: Callable[[Waits], int | None]) -> float:
    """Seconds, over the runs in which anything of a tenant got a slot."""
    found = [part(run.tenants[tenant]) for run in runs if tenant in run.tenants]
    known = [each / 1_000 for each in found if each is not None]
    return sum(known) / len(known) if known else 0.0
