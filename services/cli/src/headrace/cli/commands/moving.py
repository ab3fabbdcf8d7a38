"""`headrace queue move`: lets requests that wait go to another pool. Offered by commands.queue."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, NamedTuple

import msgspec
import typer

from headrace.cli.found_requests import show_found, summary_of
from headrace.cli.log_reading import logs_of
from headrace.cli.options import AsJson, Kafka, PolicyFile, Prefix, policy_of, require_pool, settings_of
from headrace.cli.owner_asking import Looked, ask_who_may_go, await_nobody_may_go, of_age
from headrace.cli.queue_filters import (
    IdPrefix,
    OfModel,
    OfTenant,
    OfTier,
    OlderThan,
    State,
    Within,
    age_of,
    patience_of,
    refuse_all,
    selection_of,
    until,
)
from headrace.cli.terminal import say, say_json
from headrace.cli.trouble import Trouble
from headrace.contracts.control import MoveMatching
from headrace.contracts.selections import Found, Selection
from headrace.runtime.settings import ServiceSettings

_EXAMPLES = 10


class _Asked(NamedTuple):
    """What the options mean. `within`: how long to wait for the owner."""

    pool: str
    selection: Selection
    age: timedelta | None
    within: timedelta
    to: str
    model: str | None


def move(
    pool: Annotated[str, typer.Argument(help="The pool whose queue is meant.")],
    *,
    to: Annotated[str, typer.Option("--to", help="The pool that they are to go to.")],
    model_there: Annotated[
        str | None,
        typer.Option("--as", help="The model there, as callers name it; needed where that isn't clear."),
    ] = None,
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
    """Let the requests that fit, wait, and were accepted until now go to another pool; without --yes, only say which."""
    settings = settings_of(policy=policy, kafka=kafka, prefix=prefix)
    require_pool(settings, pool)
    require_pool(settings, to)
    _refuse_in_vain(settings, pool, to, model_there)
    refuse_all("move", everything, tier, tenant, model, id_prefix, older_than)
    selection = selection_of(
        policy_of(settings), tier=tier, tenant=tenant, model=model, id_prefix=id_prefix, state=State.QUEUED
    )
    asked = _Asked(pool, selection, age_of(older_than), patience_of(within), to, model_there)
    looked = _moved(settings, asked) if yes else _look(settings, asked)
    _say(asked, looked, yes=yes, as_json=as_json)


def _say(asked: _Asked, looked: Looked, *, yes: bool, as_json: bool) -> None:
    if as_json:
        named = {"pool": asked.pool, "to": asked.to, "dry_run": not yes}
        say_json({**named, **msgspec.to_builtins(looked.found, str_keys=True)})
        return
    show_found(looked)
    say(summary_of(asked.pool, looked.found))
    for sentence in _told(looked.found, asked.to, yes=yes):
        say(sentence)


def _refuse_in_vain(settings: ServiceSettings, pool: str, to: str, model: str | None) -> None:
    if to == pool:
        raise Trouble(f"they are in {pool} already")
    models = policy_of(settings).pools[to].models
    if model is not None and model not in models:
        raise Trouble(f"{to} has no model {model}; it has {', '.join(models)}")


def _told(found: Found, to: str, *, yes: bool) -> Iterator[str]:
    may_go = found.may_go or 0
    if may_go < found.queued:
        yield (
            f"{found.queued - may_go} of them may not go to {to}: they were tried already, have been in it or in too many "
            "pools, are kept here by their callers, or it isn't clear which of its models is theirs (see --as)"
        )
    yield f"{may_go} were sent to {to}" if yes else f"nothing was done: --yes moves {may_go} to {to}"


def _look(settings: ServiceSettings, asked: _Asked) -> Looked:
    with logs_of(settings) as logs:
        meant = of_age(logs, asked.pool, asked.selection, asked.age, asked.within)
        return ask_who_may_go(logs, asked.pool, meant, _EXAMPLES, asked.within, asked.to, asked.model)


def _moved(settings: ServiceSettings, asked: _Asked) -> Looked:
    """What was found before anything was done."""
    with logs_of(settings) as logs:
        ends = logs.ends_of_requests(asked.pool, policy_of(settings))
        meant = until(of_age(logs, asked.pool, asked.selection, asked.age, asked.within), ends)
        looked = ask_who_may_go(logs, asked.pool, meant, _EXAMPLES, asked.within, asked.to, asked.model)
        logs.order(asked.pool, MoveMatching(selection=meant, to=asked.to, model=asked.model))
        await_nobody_may_go(logs, asked.pool, meant, asked.within, asked.to, asked.model)
    return looked
