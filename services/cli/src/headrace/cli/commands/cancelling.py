"""`headrace queue cancel`: ends requests that wait or run. Offered by commands.queue."""

from typing import Annotated

import typer

from headrace.cli.options import AsJson, Kafka, PolicyFile, Prefix, settings_of
from headrace.cli.owner_asking import Looked, Owner
from headrace.cli.queue_filters import (
    Everything,
    IdPrefix,
    InState,
    OfModel,
    OfTenant,
    OfTier,
    OlderThan,
    Pool,
    State,
    Within,
)
from headrace.cli.queue_orders import Order, asked_of, ordered
from headrace.contracts.control import CancelMatching
from headrace.contracts.selections import Found, Selection


def cancel(
    pool: Pool,
    *,
    tier: OfTier = None,
    tenant: OfTenant = None,
    model: OfModel = None,
    id_prefix: IdPrefix = None,
    state: InState = State.QUEUED,
    older_than: OlderThan = None,
    everything: Everything = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without, only say what it would end.")] = False,
    within: Within = "60s",
    policy: PolicyFile = None,
    kafka: Kafka = None,
    prefix: Prefix = None,
    as_json: AsJson = False,
) -> None:
    """End the requests that fit and were accepted until now; without --yes, only say which they are."""
    settings = settings_of(policy=policy, kafka=kafka, prefix=prefix)
    asked = asked_of(
        settings, "cancel", pool, everything=everything, older_than=older_than, within=within, state=state, tier=tier,
        tenant=tenant, model=model, id_prefix=id_prefix,
    )  # fmt: skip
    ordered(settings, asked, _Cancel(), yes=yes, as_json=as_json)


class _Cancel(Order):
    """Of what fits, to its end."""

    @property
    def words(self) -> str:
        """As Order.words, and so on."""
        return "cancel"

    def record(self, meant: Selection, looked: Looked) -> CancelMatching:
        """What the owner reads."""
        return CancelMatching(selection=meant, before_ms=looked.owner_ms)

    def wait(self, owner: Owner, meant: Selection) -> Found:
        """Until none fits any more."""
        return owner.await_none(meant)

    def told(self, _found: Found, after: Found | None) -> tuple[str]:
        """What became of them."""
        return ("nothing was done: --yes cancels them" if after is None else "they were cancelled",)
