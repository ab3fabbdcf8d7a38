"""`headrace workers`: who serves each pool, taking a worker out of service and putting it back."""

from datetime import timedelta
from time import monotonic, sleep
from typing import Annotated

import msgspec
import typer

from headrace.cli.log_reading import Logs, logs_of
from headrace.cli.option_groups import with_groups
from headrace.cli.options import AsJson, Where, policy_of, require_pool
from headrace.cli.terminal import say, say_json, show_table
from headrace.cli.trouble import Trouble
from headrace.cli.worker_picture import WorkerPicture, workers_of
from headrace.contracts.control import DrainWorker, UndrainWorker
from headrace.contracts.topics import TopicKind
from headrace.runtime.clock import SystemClock
from headrace.runtime.settings import ServiceSettings

_WITHIN = timedelta(seconds=15)
_LOOK_AGAIN_S = 0.1
PoolName = Annotated[str, typer.Argument(help="The pool that it serves.")]
WorkerName = Annotated[str, typer.Argument(help="The worker's name, as `headrace workers show` tells it.")]


def commands() -> typer.Typer:
    """The group `workers`."""
    app = typer.Typer(help="Who serves each pool.", no_args_is_help=True)
    app.command("show", short_help="Print each worker, its slots and what it holds.")(show)
    app.command("drain", short_help="Take a worker out of service once it has ended what runs.")(drain)
    app.command("undrain")(undrain)
    return app


@with_groups
def show(*, where: Where, as_json: AsJson = False) -> None:
    """Print each worker: lane, slots, what it holds, whether it takes work, and what its backend takes, where that is told.

    `a minute` is what its operator says that the backend takes, `left` what the backend itself said last.
    """
    settings = where.settings()
    wall_ms = SystemClock().now().wall_ms
    with logs_of(settings) as logs:
        found = [worker for pool in policy_of(settings).pools for worker in _look(logs, pool)]
    if as_json:
        say_json([{**msgspec.to_builtins(worker), "state": worker.state(wall_ms)} for worker in found])
        return
    columns = ["worker", "pool", "state", "lane", "slots", "held", "running", "epoch", "boot"]
    rows = [_as_row(worker, wall_ms) for worker in found]
    for column, told in (
        ("a minute", [each.takes for each in found]),
        ("left", [each.left for each in found]),
    ):
        if any(told):
            columns.append(column)
            rows = [(*row, cell or "-") for row, cell in zip(rows, told, strict=True)]
    show_table(columns, rows, dispensable=("epoch", "boot"))


@with_groups
def drain(pool: PoolName, worker: WorkerName, *, where: Where) -> None:
    """Take a worker out of service: it hands back what hasn't started, ends what runs, and stays idle until undrained."""
    left = _order(where.settings(), pool, worker, draining=True)
    say(f"{worker} takes no more work; it still holds {left.held}")


@with_groups
def undrain(pool: PoolName, worker: WorkerName, *, where: Where) -> None:
    """Put a drained worker back into service."""
    _order(where.settings(), pool, worker, draining=False)
    say(f"{worker} takes work again")


def _order(settings: ServiceSettings, pool: str, name: str, *, draining: bool) -> WorkerPicture:
    require_pool(settings, pool)
    with logs_of(settings) as logs:
        there = [worker.name for worker in _look(logs, pool)]
        if name not in there:
            raise Trouble(f"{pool} has no worker {name}; it has {', '.join(there) or 'none'}")
        logs.order(pool, DrainWorker(worker=name) if draining else UndrainWorker(worker=name))
        deadline = monotonic() + _WITHIN.total_seconds()
        while monotonic() < deadline:
            found = [w for w in _look(logs, pool) if w.name == name and w.draining is draining]
            if found:
                return found[0]
            sleep(_LOOK_AGAIN_S)
    raise Trouble(
        f"{name} hasn't obeyed yet; it will as soon as the pool has an owner: see `headrace pools show`"
    )


def _look(logs: Logs, pool: str) -> list[WorkerPicture]:
    with logs.following(TopicKind.WORKERS, pool) as log:
        return workers_of(pool, ((received.timestamp_ms, record) for received, record in log.to_end()))


def _as_row(worker: WorkerPicture, wall_ms: int) -> tuple[str, ...]:
    return (
        worker.name,
        worker.pool,
        worker.told(wall_ms),
        str(worker.lane),
        str(worker.slots),
        str(worker.held),
        str(worker.running),
        str(worker.epoch),
        worker.boot,
    )
