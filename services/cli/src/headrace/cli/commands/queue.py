"""`headrace queue`: which requests wait and run in a pool, and what an operator may do to many of them at once."""

from typing import Annotated

import msgspec
import typer

from headrace.cli.commands.cancelling import cancel
from headrace.cli.commands.freezing import freeze, frozen, thaw
from headrace.cli.commands.moving import move
from headrace.cli.commands.reprioritising import reprioritise
from headrace.cli.found_requests import show_found, summary_of
from headrace.cli.log_reading import logs_of
from headrace.cli.option_groups import with_groups
from headrace.cli.options import AsJson, Where, policy_of, require_pool
from headrace.cli.owner_asking import Owner
from headrace.cli.queue_filters import Filters, InState, Pool, State, Within, patience_of
from headrace.cli.terminal import say, say_json
from headrace.contracts.selections import MOST_FOUND, Find


def commands() -> typer.Typer:
    """The group `queue`."""
    app = typer.Typer(help="What waits and runs in a pool.", no_args_is_help=True)
    app.command("ls", short_help="Count what waits and runs, and name the oldest of it.")(ls)
    app.command("cancel", short_help="End requests.")(cancel)
    app.command("reprioritise", short_help="Give requests another priority.")(reprioritise)
    app.command("move", short_help="Let requests go to another pool.")(move)
    app.command("freeze", short_help="Hold back a tenant, a tier, or the whole pool.")(freeze)
    app.command("thaw", short_help="Let those go on who were held back.")(thaw)
    app.command("frozen")(frozen)
    return app


@with_groups
def ls(
    pool: Pool,
    *,
    state: InState = State.ANY,
    filters: Filters,
    most: Annotated[
        int, typer.Option(min=0, max=MOST_FOUND, help="How many to name: the oldest of those that fit.")
    ] = 20,
    within: Within = "60s",
    where: Where,
    as_json: AsJson = False,
) -> None:
    """Count the unfinished requests that fit, and name the oldest of them."""
    settings = where.settings()
    require_pool(settings, pool)
    selection = filters.selection(policy_of(settings), state)
    age, patience = filters.age, patience_of(within)
    with logs_of(settings) as logs:
        owner = Owner(logs, pool, patience)
        looked = owner.find(Find(selection=owner.of_age(selection, age), most=most))
    if as_json:
        say_json({"pool": pool, **msgspec.to_builtins(looked.found, str_keys=True)})
        return
    show_found(looked)
    say(summary_of(pool, looked.found))
