"""`headrace queue reprioritise`: gives requests another priority among their tenant's own. Offered by commands.queue."""

from dataclasses import dataclass
from typing import Annotated

import typer

from headrace.cli.options import AsJson, Kafka, PolicyFile, Prefix, settings_of
from headrace.cli.owner_asking import Looked, Owner
from headrace.cli.queue_filters import (
    Everything,
    IdPrefix,
    OfModel,
    OfTenant,
    OfTier,
    OlderThan,
    Pool,
    Within,
)
from headrace.cli.queue_orders import Order, asked_of, ordered
from headrace.contracts.control import Reprioritise
from headrace.contracts.selections import Found, Selection

_MOST = 1_000
"""As callers may say it, either way."""


def reprioritise(
    pool: Pool,
    *,
    priority: Annotated[
        int, typer.Option(min=-_MOST, max=_MOST, help="The new one: greater goes first, 0 is usual.")
    ],
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
    """Give the requests that fit and were accepted until now another priority; without --yes, only say which they are."""
    settings = settings_of(policy=policy, kafka=kafka, prefix=prefix)
    asked = asked_of(
        settings, "reprioritise", pool, everything=everything, older_than=older_than, within=within, tier=tier,
        tenant=tenant, model=model, id_prefix=id_prefix,
    )  # fmt: skip
    ordered(settings, asked, _Reprioritise(priority), yes=yes, as_json=as_json)


@dataclass(frozen=True)
class _Reprioritise(Order):
    """To this priority."""

    priority: int

    @property
    def words(self) -> str:
        """As Order.words, and so on."""
        return f"give priority {self.priority} to"

    def record(self, meant: Selection, _looked: Looked) -> Reprioritise:
        """What the owner reads."""
        return Reprioritise(selection=meant, priority=self.priority)

    def wait(self, owner: Owner, meant: Selection) -> Found:
        """Until all have it."""
        return owner.await_priority(meant, self.priority)

    def told(self, _found: Found, after: Found | None) -> tuple[str]:
        """What holds from now on."""
        if after is None:
            return ("nothing was done: --yes changes their priority",)
        return (f"they have priority {self.priority} now, among their tenant's own",)
