"""`headrace simulate`: what a policy file would have done to a trace, beside simpler policies or another file.

Nothing is connected to: the scheduler's own core runs in virtual time. Bad input ends with status 2 and a sentence a mistake.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from headrace.cli.options import AsJson, PolicyFile, policy_of, settings_of
from headrace.cli.simulation_options import duration_us, names_of, seeds_of, shares_of, slacks_of
from headrace.cli.simulation_plots import draw_plots, folder_for
from headrace.cli.simulation_tables import tables_of
from headrace.cli.terminal import say, say_json, show_table
from headrace.cli.trouble import Trouble
from headrace.contracts.policy import Policy
from headrace.contracts.prefixes import BLOCK_TOKENS
from headrace.runtime.policy_file import PolicyError, load_policy
from headrace.scheduler.simulate.backend import BackendModel
from headrace.scheduler.simulate.comparing import Course, Entrant, compare, contenders, headrace
from headrace.scheduler.simulate.figures import Figures
from headrace.scheduler.simulate.over_seeds import summary_of
from headrace.scheduler.simulate.scenario import Scenario
from headrace.scheduler.simulate.series import Series
from headrace.scheduler.simulate.trace import Asked, TraceError, half_of, read_trace

BAD_INPUT = 2
_Count = Annotated[int, typer.Option(min=1)]
_Text = str | None
_Compare = Annotated[_Text, typer.Option("--compare", help="Policies, by comma; default: headrace.")]
_Load = Annotated[float | None, typer.Option(min=0.01, max=100, help="Of capacity; default: as recorded.")]


def simulate(  # noqa: PLR0917 - options of a command line
    trace: Annotated[Path, typer.Option(help="CSV: t_s, input_tokens, output_tokens; docs/simulate.md.")],
    policy: PolicyFile = None,
    against: Annotated[Path | None, typer.Option(help="Another policy file, compared as well.")] = None,
    pool: Annotated[_Text, typer.Option(help="Of the policy; default: its first.")] = None,
    compare_: _Compare = None,
    seeds: Annotated[str, typer.Option(help="A run for each: 0..19.")] = "0..4",
    half: Annotated[str, typer.Option(help="Of the trace: first, second or whole.")] = "whole",
    requests: Annotated[int | None, typer.Option(min=1, help="So many, where the seed says.")] = None,
    load: _Load = None,
    tenants: Annotated[int | None, typer.Option(min=1, max=10_000, help="Default: the policy's.")] = None,
    largest: Annotated[float | None, typer.Option(min=0, max=1, help="The first tenant's share.")] = None,
    skew: Annotated[float, typer.Option(min=0, max=5, help="Of the tenants (Zipf).")] = 0.0,
    tiers: Annotated[_Text, typer.Option(help="Shares: interactive=0.3,batch=0.7.")] = None,
    slack: Annotated[_Text, typer.Option(help="Deadlines: 5s..30s, or TIER=5s..30s by comma.")] = None,
    backends: _Count = 1,
    slots: Annotated[int, typer.Option(min=1, help="Of each backend.")] = 32,
    prefill: Annotated[int, typer.Option(min=1, help="Prompt tokens a second.")] = 8_000,
    each: Annotated[str, typer.Option("--token-time", help="For one output token.")] = "25ms",
    kv: Annotated[int | None, typer.Option(min=1, help="Tokens of KV memory; default: enough.")] = None,
    cache: Annotated[
        int | None, typer.Option(min=1, help="Tokens of prefix cache; default: endless.")
    ] = None,
    plots: Annotated[Path | None, typer.Option(help="Folder for pictures, as SVG files.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run a trace through the scheduler in virtual time, and compare policies."""
    with _bad_input_told():
        chosen = policy_of(settings_of(policy=policy))
        scenario = Scenario(
            load=load, requests=requests, tenants=tenants, largest=largest, skew=skew,
            tiers=shares_of(tiers), slack_ms=slacks_of(slack, chosen.tiers),
        )  # fmt: skip
        models = [_model(slots, prefill, each, kv, cache)] * backends
        course = Course(half_of(_trace_in(trace), half), scenario, chosen, _pool_of(chosen, pool), models)
        entrants = _entrants(course, compare_, against)
        folder, series = None if plots is None else folder_for(plots), dict[str, Series]()
        found = _run(course, entrants, seeds_of(seeds), series, quiet=as_json)
        drawn = [] if folder is None else draw_plots(folder, series, found)
    _tell(found, drawn, as_json=as_json)


def _model(slots: int, prefill: int, each: str, kv: int | None, cache: int | None) -> BackendModel:
    token_us, blocks = duration_us(each, "--token-time"), None if cache is None else cache // BLOCK_TOKENS
    return BackendModel(slots, prefill, token_us, kv, cache_blocks=blocks, prompts_in_turn=blocks is not None)


@contextmanager
def _bad_input_told() -> Iterator[None]:
    """A sentence on standard error for each mistake, then the end with its status."""
    try:
        yield
    except (TraceError, PolicyError) as error:
        _end(error.sentences)
    except Trouble as error:
        _end([str(error)])


def _end(sentences: Sequence[str]) -> NoReturn:
    for sentence in sentences:
        sys.stderr.write(f"headrace: {sentence}\n")
    raise typer.Exit(BAD_INPUT)


def _trace_in(path: Path) -> list[Asked]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            return read_trace(lines, str(path))
    except OSError as error:
        raise Trouble(f"{path}: the trace can't be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise Trouble(f"{path}: the trace isn't UTF-8 text") from None


def _pool_of(policy: Policy, pool: str | None) -> str:
    if pool is not None and pool not in policy.pools:
        raise Trouble(f"the policy has no pool {pool}; it has {', '.join(policy.pools)}")
    if not policy.pools:
        raise Trouble("the policy has no pool: add one, such as [pools.main.models]")
    return pool or next(iter(policy.pools))


def _entrants(course: Course, names: str | None, against: Path | None) -> dict[str, Entrant]:
    known = contenders(course.policy, course.pool)
    entrants = {name: known[name] for name in names_of(names or "headrace", known)}
    if against is not None:
        other = load_policy(against)
        if missing := [tier for tier in course.policy.tiers if tier not in other.tiers]:
            raise Trouble(f"{against} has no tier {missing[0]}, which the trace's requests may be of")
        entrants[f"headrace, {against.name}"] = headrace(other, _pool_of(other, course.pool))
    return entrants


def _run(
    course: Course,
    entrants: Mapping[str, Entrant],
    seeds: range,
    series: dict[str, Series],
    *,
    quiet: bool,
) -> dict[str, list[Figures]]:
    """With a bar on standard error, which a pipe doesn't get."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    hidden = quiet or not sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), disable=hidden, transient=True) as bars:
        task = bars.add_task("runs", total=len(seeds) * len(entrants))
        return compare(course, entrants, seeds, lambda _name, _seed: bars.advance(task), series)


def _tell(found: Mapping[str, list[Figures]], drawn: Sequence[Path], *, as_json: bool) -> None:
    summaries = {name: summary_of(runs) for name, runs in found.items()}
    if as_json:
        data = {name: {"summary": summaries[name], "runs": runs} for name, runs in found.items()}
        say_json(msgspec.to_builtins(data))
        return
    for table in tables_of(summaries):
        say(table.title)
        show_table(table.columns, table.rows)
        say()
    for path in drawn:
        say(f"wrote: {path}")
