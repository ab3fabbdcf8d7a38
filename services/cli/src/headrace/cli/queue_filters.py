"""The filters of `headrace queue`: options, and the selection that they make. Pure but for one warning.

Invariant: a filter that can fit nothing, since the policy doesn't have what it names, is told as a sentence; and nothing goes
by the clock of the operator's machine, which may be wrong.
"""

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Annotated

import msgspec
import typer

from headrace.bus.messages import Place
from headrace.cli.option_groups import OptionGroup
from headrace.cli.terminal import warn
from headrace.cli.trouble import Trouble
from headrace.contracts.durations import ms, parse, render
from headrace.contracts.policy import Policy
from headrace.contracts.selections import Selection, Stage
from headrace.runtime.suggestions import did_you_mean

_LONGEST_NAME, _LONGEST_ID = 128, 256
_FIRST_MS = 1_577_836_800_000
"""The earliest instant that a record takes: nothing was accepted before it."""


class State(StrEnum):
    """As `--state` takes it."""

    QUEUED = "queued"
    RUNNING = "running"
    ANY = "any"


Pool = Annotated[str, typer.Argument(help="The pool whose queue is meant.")]
OfTier = Annotated[str | None, typer.Option("--tier", help="Only of this tier.")]
OfTenant = Annotated[str | None, typer.Option("--tenant", help="Only of this tenant.")]
OfModel = Annotated[str | None, typer.Option("--model", help="Only for this model, as the backend names it.")]
IdPrefix = Annotated[str | None, typer.Option("--id", help="Only those whose id begins so.")]
InState = Annotated[State, typer.Option("--state", help="Only those that wait, or that run.")]
OlderThan = Annotated[
    str | None, typer.Option("--older-than", help="Only those accepted so long ago, such as 10m.")
]
Within = Annotated[str, typer.Option("--within", help="How long to wait for the pool's owner, such as 60s.")]


@dataclass(frozen=True)
class Filters(OptionGroup):
    """Those of all verbs that look at requests or change them."""

    tier: OfTier = None
    tenant: OfTenant = None
    model: OfModel = None
    id_prefix: IdPrefix = None
    older_than: OlderThan = None

    @property
    def given(self) -> bool:
        """Whether any is."""
        return any(value is not None for value in astuple(self))

    @property
    def age(self) -> timedelta | None:
        """How old the requests must be. Raises Trouble."""
        return None if self.older_than is None else _duration("--older-than", self.older_than)

    def selection(self, policy: Policy, state: State) -> Selection:
        """As selection_of."""
        return selection_of(
            policy,
            tier=self.tier,
            tenant=self.tenant,
            model=self.model,
            id_prefix=self.id_prefix,
            state=state,
        )


def selection_of(
    policy: Policy,
    *,
    tier: str | None = None,
    tenant: str | None = None,
    model: str | None = None,
    id_prefix: str | None = None,
    state: State = State.ANY,
) -> Selection:
    """What the options mean, but for the age. Raises Trouble. A tenant that the policy doesn't name may have requests that
    wait all the same, if it was taken out lately; so it is only told.
    """
    if tier is not None and tier not in policy.tiers:
        raise Trouble(f"the policy has no tier {tier}; it has {', '.join(policy.tiers)}")
    if tenant is not None and tenant not in policy.tenants:
        warn(f"the policy has no tenant {tenant}, {did_you_mean(tenant, policy.tenants)}")
    for name, given, longest in (
        ("--tenant", tenant, _LONGEST_NAME),
        ("--model", model, _LONGEST_NAME),
        ("--id", id_prefix, _LONGEST_ID),
    ):
        if given is not None and not 1 <= len(given) <= longest:
            raise Trouble(f"{name} has {len(given)} characters; it takes 1 to {longest}")
    return Selection(
        tier=tier,
        tenant=tenant,
        model=model,
        id_prefix=id_prefix,
        stage=None if state is State.ANY else Stage(state),
    )


def in_words(selection: Selection, age: timedelta | None) -> str:
    """What the options mean, as a person says it."""
    staged = {None: "what waits and runs", Stage.QUEUED: "what waits", Stage.RUNNING: "what runs"}
    told = (
        ("of tier", selection.tier),
        ("of tenant", selection.tenant),
        ("for model", selection.model),
        ("with ids that begin with", selection.id_prefix),
        ("older than", None if age is None else render(age)),
    )
    return ", ".join(
        [staged[selection.stage], *(f"{words} {what}" for words, what in told if what is not None)]
    )


def older(selection: Selection, age: timedelta, owner_ms: int) -> Selection:
    """Of these what is older, where the owner's clock says this, Unix ms: deadlines go by that clock, too."""
    return msgspec.structs.replace(selection, accepted_before_ms=max(owner_ms - ms(age), _FIRST_MS))


def until(selection: Selection, ends: Mapping[Place, int]) -> Selection:
    """Of these what stands before the ends of these logs; where nothing does, nothing is said of it."""
    by_topic: dict[str, dict[int, int]] = {}
    for place, end in ends.items():
        if end:
            by_topic.setdefault(place.topic, {})[place.partition] = end
    return msgspec.structs.replace(selection, stands_before=by_topic)


def refuse_all(what: str, filters: Filters, *, everything: bool) -> None:
    """Raises Trouble unless either filters are given or all is meant in so many words."""
    if not filters.given and not everything:
        raise Trouble(f"no filter is given: name what to {what}, such as --tenant NAME, or say --all")
    if filters.given and everything:
        raise Trouble("--all takes no filter beside it")


def patience_of(within: str) -> timedelta:
    """How long to wait. Raises Trouble."""
    return _duration("--within", within)


def _duration(option: str, given: str) -> timedelta:
    try:
        return parse(given)
    except ValueError as error:
        raise Trouble(f'{option} is "{given}": {error}') from None
