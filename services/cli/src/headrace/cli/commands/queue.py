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
from headrace.cli.options import (
    AsJson,
    Kafka,
    PolicyFile,
    Prefix,
    policy_of,
    require_pool,
    settings_of,
)
from headrace.cli.owner_asking import Owner
from headrace.cli.queue_filters import (
    IdPrefix,
    InState,
    OfModel,
    OfTenant,
    OfTier,
    OlderThan,
    Pool,
    State,
    Within,
    age_of,
    patience_of,
    selection_of,
)
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


def ls(
    pool: Pool,
    *,
    tier: OfTier = None,
    tenant: OfTenant = None,
    model: OfModel = None,
    id_prefix: IdPrefix = None,
    state: InState = State.ANY,
    older_than: OlderThan = None,
    most: Annotated[
        int, typer.Option(min=0, max=MOST_FOUND, help="How many to name: the oldest of those that fit.")
    ] = 20,
    within: Within = "60s",
    policy: PolicyFile = None,
    kafka: Kafka = None,
    prefix: Prefix = None,
    as_json: AsJson = False,
) -> None:
    """Count the unfinished requests that fit, and name the oldest of them."""
    settings = settings_of(policy=policy, kafka=kafka, prefix=prefix)
    require_pool(settings, pool)
    selection = selection_of(
        policy_of(settings), tier=tier, tenant=tenant, model=model, id_prefix=id_prefix, state=state
    )
    age, patience = age_of(older_than), patience_of(within)
    with logs_of(settings) as logs:
        owner = Owner(logs, pool, patience)
        looked = owner.find(Find(selection=owner.of_age(selection, age), most=most))
    if as_json:
        say_json({"pool": pool, **msgspec.to_builtins(looked.found, str_keys=True)})
        return
    show_found(looked)
    say(summary_of(pool, looked.found))
