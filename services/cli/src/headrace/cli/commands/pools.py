"""`headrace pools`: who is in charge of each pool, and giving one to another scheduler replica."""

from datetime import timedelta
from time import monotonic, sleep
from typing import Annotated

import msgspec
import typer

from headrace.cli.log_reading import Logs, logs_of
from headrace.cli.option_groups import with_groups
from headrace.cli.options import AsJson, Where, policy_of, require_pool
from headrace.cli.pool_picture import PoolPicture, picture_of
from headrace.cli.queue_filters import patience_of
from headrace.cli.terminal import say, say_json, show_table
from headrace.cli.trouble import Trouble, part
from headrace.contracts.checkpoints import Ownership
from headrace.contracts.control import MovePool
from headrace.contracts.durations import ms, render
from headrace.contracts.topics import TopicKind
from headrace.runtime.clock import SystemClock
from headrace.runtime.settings_loading import load

_LOOK_AGAIN_S = 0.02


def commands() -> typer.Typer:
    """The group `pools`."""
    app = typer.Typer(help="Who is in charge of each pool.", no_args_is_help=True)
    app.command("show")(show)
    app.command("move", short_help="Let another scheduler replica take a pool over.")(move)
    return app


@with_groups
def show(*, where: Where, as_json: AsJson = False) -> None:
    """Print each pool's owner, how full it is, and who stands by."""
    settings = where.settings()
    wall_ms = SystemClock().now().wall_ms
    with logs_of(settings) as logs:
        pictures = [_look(logs, pool, wall_ms) for pool in policy_of(settings).pools]
    if as_json:
        say_json([_as_data(picture, wall_ms) for picture in pictures])
        return
    columns = ("pool", "owner", "epoch", "since", "gate", "in flight", "waiting", "paused", "standing by")
    show_table(columns, (_as_row(picture, wall_ms) for picture in pictures), dispensable=("paused",))


@with_groups
def move(
    pool: Annotated[str, typer.Argument(help="The pool to give away.")],
    *,
    to: Annotated[str, typer.Option("--to", help="Name of the scheduler replica that is to own it.")],
    within: Annotated[str, typer.Option(help="How long to wait for it, such as 20s.")] = "20s",
    where: Where,
    as_json: AsJson = False,
) -> None:
    """Let another scheduler replica take a pool over, and wait until it releases work."""
    settings = where.settings()
    require_pool(settings, pool)
    _refuse_a_stranger(to)
    patience = patience_of(within)  # before anything is ordered
    with logs_of(settings) as logs:
        before = _look(logs, pool, None)
        _refuse_in_vain(before, to)
        logs.order(pool, MovePool(to=to))
        after, took = _await_owner(logs, pool, to, before, patience)
    if as_json:
        say_json({"pool": pool, "from": before.owner, "to": to, "epoch": after.epoch, "took_ms": ms(took)})
    else:
        say(f"{pool} went from {before.owner or 'nobody'} to {to} in {render(took)}; epoch {after.epoch}")


def _refuse_a_stranger(to: str) -> None:
    replicas: tuple[str, ...] = load(part("headrace.scheduler.settings").SchedulerSettings, None).replicas
    if replicas and to not in replicas:
        raise Trouble(f"HEADRACE_SCHEDULER_REPLICAS doesn't name {to}; it names {', '.join(replicas)}")


def _refuse_in_vain(picture: PoolPicture, to: str) -> None:
    """Nobody would be there to follow: the pool would be without an owner for some seconds."""
    if picture.owner == to:
        raise Trouble(f"{picture.pool} is owned by {to} already")
    if to not in (names := [standby.replica for standby in picture.standbys]):
        raise Trouble(
            f"{to} doesn't stand by for {picture.pool}; those who do: {', '.join(names) or 'nobody'}"
        )


def _await_owner(
    logs: Logs, pool: str, to: str, before: PoolPicture, within: timedelta
) -> tuple[Ownership, timedelta]:
    began = monotonic()
    with logs.following(TopicKind.STATE, pool) as state:
        while monotonic() - began < within.total_seconds():
            for _, record in state.to_end():
                newer = isinstance(record, Ownership) and record.epoch > before.epoch
                if newer and record.owner == to and record.gate_open:
                    return record, timedelta(milliseconds=round((monotonic() - began) * 1000))
            sleep(_LOOK_AGAIN_S)
    raise Trouble(f"{to} doesn't own {pool} after {render(within)}: the owner's log says why it isn't moved")


def _look(logs: Logs, pool: str, wall_ms: int | None) -> PoolPicture:
    """As of this instant; None: of the newest word in `queue-state`, so that no wrong clock takes anybody for gone."""
    with logs.following(TopicKind.STATE, pool) as state:
        owners = [(r.timestamp_ms, record) for r, record in state.to_end() if isinstance(record, Ownership)]
    with logs.following(TopicKind.QUEUE_STATE) as states:
        told = list(states.to_end())
    newest_ms = max((received.timestamp_ms for received, _ in told), default=0)
    return picture_of(pool, owners, [record for _, record in told], newest_ms if wall_ms is None else wall_ms)


def _as_row(picture: PoolPicture, wall_ms: int) -> tuple[str, ...]:
    standbys = ", ".join(f"{s.replica} ({s.behind} behind)" for s in picture.standbys)
    return (
        picture.pool,
        _owner(picture, wall_ms),
        str(picture.epoch),
        "" if picture.since_ms is None else _age(wall_ms - picture.since_ms),
        "open" if picture.gate_open else "shut",
        f"{picture.in_flight} of {picture.slots}",
        str(picture.waiting),
        str(picture.paused_partitions),
        standbys or "nobody",
    )


def _owner(picture: PoolPicture, wall_ms: int) -> str:
    if picture.owner is None:
        return f"nobody, left to {picture.successor}" if picture.successor else "nobody"
    if picture.silent(wall_ms):
        return f"{picture.owner}, silent for {_age(wall_ms - picture.seen_ms)}"
    return picture.owner


def _age(age_ms: int) -> str:
    return render(timedelta(seconds=max(0, age_ms) // 1000))


def _as_data(picture: PoolPicture, wall_ms: int) -> dict[str, object]:
    data: dict[str, object] = msgspec.to_builtins(picture)
    return {**data, "silent": picture.silent(wall_ms)}
