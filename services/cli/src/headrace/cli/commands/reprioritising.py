"""`headrace queue reprioritise`: gives requests another priority among their tenant's own. Offered by commands.queue."""

from datetime import timedelta
from typing import Annotated, NamedTuple

import msgspec
import typer

from headrace.cli.found_requests import show_found, summary_of
from headrace.cli.log_reading import logs_of
from headrace.cli.options import AsJson, Kafka, PolicyFile, Prefix, policy_of, require_pool, settings_of
from headrace.cli.owner_asking import Looked, ask, await_priority, of_age
from headrace.cli.queue_filters import (
    IdPrefix,
    OfModel,
    OfTenant,
    OfTier,
    OlderThan,
    Within,
    age_of,
    patience_of,
    refuse_all,
    selection_of,
    until,
)
from headrace.cli.terminal import say, say_json
from headrace.contracts.control import Reprioritise
from headrace.contracts.selections import Selection
from headrace.runtime.settings import ServiceSettings

_EXAMPLES = 10
_MOST = 1_000
"""As callers may say it, either way."""


class _Asked(NamedTuple):
    """What the options mean. `within`: how long to wait for the owner."""

    pool: str
    selection: Selection
    age: timedelta | None
    within: timedelta


def reprioritise(
    pool: Annotated[str, typer.Argument(help="The pool whose queue is meant.")],
    *,
    priority: Annotated[
        int, typer.Option(min=-_MOST, max=_MOST, help="The new one: greater goes first, 0 is usual.")
    ],
    tier: OfTier = None,
    tenant: OfTenant = None,
    model: OfModel = None,
    id_prefix: IdPrefix = None,
    older_than: OlderThan = None,
    everything: Annotated[bool, typer.Option("--all", help="No filter: all of the pool.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do it; without, only say what it would change.")
    ] = False,
    within: Within = "60s",
    policy: PolicyFile = None,
    kafka: Kafka = None,
    prefix: Prefix = None,
    as_json: AsJson = False,
) -> None:
    """Give the requests that fit and were accepted until now another priority; without --yes, only say which they are."""
    settings = settings_of(policy=policy, kafka=kafka, prefix=prefix)
    require_pool(settings, pool)
    refuse_all("reprioritise", everything, tier, tenant, model, id_prefix, older_than)
    selection = selection_of(policy_of(settings), tier=tier, tenant=tenant, model=model, id_prefix=id_prefix)
    asked = _Asked(pool, selection, age_of(older_than), patience_of(within))
    looked = _changed(settings, asked, priority) if yes else _look(settings, asked)
    if as_json:
        say_json({"pool": pool, "dry_run": not yes, **msgspec.to_builtins(looked.found, str_keys=True)})
        return
    show_found(looked)
    say(summary_of(pool, looked.found))
    done = f"they have priority {priority} now, among their tenant's own"
    say(done if yes else "nothing was done: --yes changes their priority")


def _look(settings: ServiceSettings, asked: _Asked) -> Looked:
    with logs_of(settings) as logs:
        meant = of_age(logs, asked.pool, asked.selection, asked.age, asked.within)
        return ask(logs, asked.pool, meant, _EXAMPLES, asked.within)


def _changed(settings: ServiceSettings, asked: _Asked, priority: int) -> Looked:
    """What was found before anything was done."""
    with logs_of(settings) as logs:
        ends = logs.ends_of_requests(asked.pool, policy_of(settings))
        meant = until(of_age(logs, asked.pool, asked.selection, asked.age, asked.within), ends)
        looked = ask(logs, asked.pool, meant, _EXAMPLES, asked.within)
        logs.order(asked.pool, Reprioritise(selection=meant, priority=priority))
        await_priority(logs, asked.pool, meant, priority, asked.within)
    return looked
