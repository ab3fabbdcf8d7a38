"""`headrace queue move`: lets requests that wait go to another pool. Offered by commands.queue."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

import typer

from headrace.cli.options import AsJson, Kafka, PolicyFile, Prefix, policy_of, require_pool, settings_of
from headrace.cli.owner_asking import Looked, Owner
from headrace.cli.queue_filters import (
    Everything,
    IdPrefix,
    OfModel,
    OfTenant,
    OfTier,
    OlderThan,
    Pool,
    State,
    Within,
)
from headrace.cli.queue_orders import EXAMPLES, Order, asked_of, ordered
from headrace.cli.trouble import Trouble
from headrace.contracts.control import MoveMatching
from headrace.contracts.selections import Find, Found, Selection
from headrace.runtime.settings import ServiceSettings


def move(
    pool: Pool,
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
    everything: Everything = False,
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
    asked = asked_of(
        settings, "move", pool, everything=everything, older_than=older_than, within=within, state=State.QUEUED, tier=tier,
        tenant=tenant, model=model, id_prefix=id_prefix,
    )  # fmt: skip
    ordered(settings, asked, _Move(to, model_there), yes=yes, as_json=as_json)


@dataclass(frozen=True)
class _Move(Order):
    """To the pool `to`, as `model` there."""

    to: str
    model: str | None

    @property
    def named(self) -> Mapping[str, str]:
        """As Order.named, and so on."""
        return {"to": self.to}

    def look(self, owner: Owner, meant: Selection) -> Looked:
        """And how many of them may go."""
        find = Find(selection=meant, most=EXAMPLES, to=self.to, model=self.model)
        return owner.find_who_may_go(find)

    def record(self, meant: Selection, _looked: Looked) -> MoveMatching:
        """What the owner reads."""
        return MoveMatching(selection=meant, to=self.to, model=self.model)

    def wait(self, owner: Owner, meant: Selection) -> None:
        """Until all that may go are on their way."""
        owner.await_gone(meant, self.to, self.model)

    def told(self, found: Found, *, yes: bool) -> Iterator[str]:
        """How many go, and why others don't."""
        may_go = found.may_go or 0
        if may_go < found.queued:
            yield (
                f"{found.queued - may_go} of them may not go to {self.to}: they were tried already, have been in it or in "
                "too many pools, are kept here by their callers, or it isn't clear which of its models is theirs (see --as)"
            )
        sent = f"{may_go} were sent to {self.to}"
        would = f"--yes moves {may_go} to {self.to}" if may_go else "none of them may go"
        yield sent if yes else f"nothing was done: {would}"


def _refuse_in_vain(settings: ServiceSettings, pool: str, to: str, model: str | None) -> None:
    if to == pool:
        raise Trouble(f"they are in {pool} already")
    models = policy_of(settings).pools[to].models
    if model is not None and model not in models:
        raise Trouble(f"{to} has no model {model}; it has {', '.join(models)}")
