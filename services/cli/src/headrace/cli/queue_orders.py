"""An operator's order for many requests of a pool: what it would touch, and with --yes the order itself, until it is carried
out. Used by `headrace queue cancel`, `move` and `reprioritise`.

Invariant: nothing is ordered without --yes, and never anything for a request that was accepted after the command was given.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, ClassVar, NamedTuple

import msgspec
import typer

from headrace.cli.found_requests import show_found, summary_of
from headrace.cli.log_reading import logs_of
from headrace.cli.option_groups import OptionGroup
from headrace.cli.options import AsJson, Where, policy_of, require_pool
from headrace.cli.owner_asking import Looked, Owner
from headrace.cli.queue_filters import Filters, State, Within, in_words, patience_of, refuse_all, until
from headrace.cli.terminal import say, say_json
from headrace.contracts.control import ControlRecord
from headrace.contracts.selections import Find, Found, Selection
from headrace.runtime.settings import ServiceSettings

EXAMPLES = 10
"""Requests that are named, of those that an order means."""


@dataclass(frozen=True)
class Orders(OptionGroup):
    """How an order is given."""

    everything: Annotated[bool, typer.Option("--all", help="No filter: all of the pool.")] = False
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without, only say what it would touch.")] = False
    within: Within = "60s"
    as_json: AsJson = False


class Asked(NamedTuple):
    """What the options mean that all such orders have. `within`: how long to wait for the owner."""

    pool: str
    selection: Selection
    age: timedelta | None
    within: timedelta


class Order(ABC):
    """One kind of order."""

    @property
    def named(self) -> Mapping[str, str]:
        """What JSON says of it beside what was found."""
        return {}

    def look(self, owner: Owner, meant: Selection) -> Looked:
        """What it would touch: by default all that fit."""
        return owner.find(Find(selection=meant, most=EXAMPLES))

    @abstractmethod
    def record(self, meant: Selection, looked: Looked) -> ControlRecord:
        """As it is written to `control`."""

    verb: ClassVar[str]
    """As people type it."""

    @property
    def words(self) -> str:
        """What is asked for, before what it is asked of."""
        return self.verb

    @abstractmethod
    def wait(self, owner: Owner, meant: Selection) -> Found:
        """Until it is carried out; what fits then. Raises Trouble."""

    @abstractmethod
    def told(self, found: Found, after: Found | None) -> Iterable[str]:
        """What was done, or would be, in sentences. `found` before it; `after`: what fitted then; None: nothing was done."""


def ordered(
    order: Order, pool: str, filters: Filters, options: Orders, where: Where, *, state: State = State.ANY
) -> None:
    """Give the order, or without --yes only look, and say what was found before anything was done. Raises Trouble."""
    settings, yes = where.settings(), options.yes
    require_pool(settings, pool)
    refuse_all(order.verb, filters, everything=options.everything)
    asked = Asked(
        pool, filters.selection(policy_of(settings), state), filters.age, patience_of(options.within)
    )
    looked, after = _given(settings, asked, order) if yes else (_looked(settings, asked, order), None)
    if options.as_json:
        found = msgspec.to_builtins(looked.found, str_keys=True)
        then = {} if after is None else {"after": msgspec.to_builtins(after, str_keys=True)}
        say_json({"pool": asked.pool, **order.named, "dry_run": not yes, **found, **then})
        return
    show_found(looked)
    say(f"asked: {order.words} {in_words(asked.selection, asked.age)}")
    say(summary_of(asked.pool, looked.found))
    if not looked.found.queued + looked.found.running + looked.found.unread_partitions:
        say("nothing fits, so there is nothing to do")
        return
    for sentence in order.told(looked.found, after):
        say(sentence)


def _looked(settings: ServiceSettings, asked: Asked, order: Order) -> Looked:
    with logs_of(settings) as logs:
        owner = Owner(logs, asked.pool, asked.within)
        return order.look(owner, owner.of_age(asked.selection, asked.age))


def _given(settings: ServiceSettings, asked: Asked, order: Order) -> tuple[Looked, Found]:
    with logs_of(settings) as logs:
        owner = Owner(logs, asked.pool, asked.within)
        ends = logs.ends_of_requests(asked.pool, policy_of(settings))
        meant = until(owner.of_age(asked.selection, asked.age), ends)
        looked = order.look(owner, meant)
        logs.order(asked.pool, order.record(meant, looked))
        return looked, order.wait(owner, meant)
