"""`headrace queue cancel`: ends requests that wait or run. Offered by commands.queue."""

from collections.abc import Mapping
from typing import Annotated

import typer

from headrace.cli.options import AsJson, Kafka, PolicyFile, Prefix, policy_of, require_pool, settings_of
from headrace.cli.owner_asking import Looked, Owner
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
    refuse_all,
    selection_of,
)
from headrace.cli.queue_orders import EXAMPLES, Asked, ordered
from headrace.contracts.control import CancelMatching
from headrace.contracts.selections import Find, Found, Selection


def cancel(
    pool: Pool,
    *,
    tier: OfTier = None,
    tenant: OfTenant = None,
    model: OfModel = None,
    id_prefix: IdPrefix = None,
    state: InState = State.QUEUED,
    older_than: OlderThan = None,
    everything: Annotated[bool, typer.Option("--all", help="No filter: all of the pool.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without, only say what it would end.")] = False,
    within: Within = "60s",
    policy: PolicyFile = None,
    kafka: Kafka = None,
    prefix: Prefix = None,
    as_json: AsJson = False,
) -> None:
    """End the requests that fit and were accepted until now; without --yes, only say which they are."""
    settings = settings_of(policy=policy, kafka=kafka, prefix=prefix)
    require_pool(settings, pool)
    refuse_all("cancel", everything, tier, tenant, model, id_prefix, older_than)
    selection = selection_of(
        policy_of(settings), tier=tier, tenant=tenant, model=model, id_prefix=id_prefix, state=state
    )
    asked = Asked(pool, selection, age_of(older_than), patience_of(within))
    ordered(settings, asked, _Cancel(), yes=yes, as_json=as_json)


class _Cancel:
    """All that fit."""

    @property
    def named(self) -> Mapping[str, str]:
        """As queue_orders.Order has it, like all here."""
        return {}

    def look(self, owner: Owner, meant: Selection) -> Looked:
        """What fits."""
        return owner.find(Find(selection=meant, most=EXAMPLES))

    def record(self, meant: Selection, looked: Looked) -> CancelMatching:
        """What the owner reads."""
        return CancelMatching(selection=meant, before_ms=looked.owner_ms)

    def wait(self, owner: Owner, meant: Selection) -> None:
        """Until none fits any more."""
        owner.await_none(meant)

    def told(self, _found: Found, *, yes: bool) -> tuple[str]:
        """What became of them."""
        return ("they were cancelled" if yes else "nothing was done: --yes cancels them",)
