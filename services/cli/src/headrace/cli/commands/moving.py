"""`headrace queue move`: lets requests that wait go to another pool. Offered by commands.queue."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

import typer

from headrace.cli.option_groups import with_groups
from headrace.cli.options import Where, policy_of, require_pool
from headrace.cli.owner_asking import Looked, Owner
from headrace.cli.queue_filters import Filters, Pool, State
from headrace.cli.queue_orders import EXAMPLES, Order, Orders, ordered
from headrace.cli.trouble import Trouble
from headrace.contracts.control import MoveMatching
from headrace.contracts.requests import MOST_HOPS
from headrace.contracts.selections import Find, Found, Selection, Stays

_WHY = {
    Stays.TRIED: "given to a worker before",
    Stays.BEEN_THERE: "in {to} before",
    Stays.TOO_MANY_POOLS: "in {most} pools before, as many as a request may be in",
    Stays.KEPT: "kept here by the caller's `fallback: false`",
    Stays.REFUSED: "refused by the log of {to}",
    Stays.NO_MODEL: "for a model of which it isn't clear what it is in {to}: name one by --as",
    Stays.NO_POOL: "since the pool's owner knows no {to}: its policy file is another",
}


@with_groups
def move(
    pool: Pool,
    *,
    to: Annotated[str, typer.Option("--to", help="The pool that they are to go to.")],
    model_there: Annotated[
        str | None,
        typer.Option("--as", help="The model there, as callers name it; needed where that isn't clear."),
    ] = None,
    filters: Filters,
    options: Orders,
    where: Where,
) -> None:
    """Let the requests that fit, wait, and were accepted until now go to another pool; without --yes, only say which."""
    _refuse_in_vain(where, pool, to, model_there)
    ordered(ToPool(pool, to, model_there), pool, filters, options, where, state=State.QUEUED)


@dataclass(frozen=True)
class ToPool(Order):
    """From the pool `here` to the pool `to`, as `model` there."""

    verb = "move"
    here: str
    to: str
    model: str | None

    @property
    def named(self) -> Mapping[str, str]:
        """As Order.named, and so on."""
        return {"to": self.to}

    @property
    def words(self) -> str:
        """What is asked for."""
        return f"move to {self.to}{'' if self.model is None else f' as {self.model}'}"

    def look(self, owner: Owner, meant: Selection) -> Looked:
        """And how many of them may go."""
        find = Find(selection=meant, most=EXAMPLES, to=self.to, model=self.model)
        return owner.find_who_may_go(find)

    def record(self, meant: Selection, _looked: Looked) -> MoveMatching:
        """What the owner reads."""
        return MoveMatching(selection=meant, to=self.to, model=self.model)

    def wait(self, owner: Owner, meant: Selection) -> Found:
        """Until all that may go are on their way."""
        return owner.await_gone(meant, self.to, self.model)

    def told(self, found: Found, after: Found | None) -> Iterator[str]:
        """How many went, or would, and why others don't."""
        if after is None:
            may_go = found.may_go or 0
            yield f"nothing was done: {f'--yes moves {may_go} to {self.to}' if may_go else 'none of them may go'}"
            yield from self._why_others_stay(found.queued - may_go, found.stay)
            return
        gone = found.queued - after.queued
        if after.moved is None:  # another owner has taken over meanwhile, or one is of an older version
            yield f"{gone} went to {self.to}, or began to run, or ended"
        else:
            yield f"{after.moved} went to {self.to}"
            if gone > after.moved:
                yield f"{gone - after.moved} began to run, or ended, before they could go"
        yield from self._why_others_stay(after.queued, after.stay)

    def _why_others_stay(self, count: int, stay: Mapping[Stays, int]) -> Iterator[str]:
        if count:
            yield f"{count} stay{'s' * (count == 1)} in {self.here}{':' * bool(stay)}"
        for why, how_many in stay.items():
            yield f"  {how_many} {_WHY[why].format(to=self.to, most=MOST_HOPS + 1)}"


def _refuse_in_vain(where: Where, pool: str, to: str, model: str | None) -> None:
    settings = where.settings()
    require_pool(settings, pool)
    require_pool(settings, to)
    if to == pool:
        raise Trouble(f"they are in {pool} already")
    models = policy_of(settings).pools[to].models
    if model is not None and model not in models:
        raise Trouble(f"{to} has no model {model}; it has {', '.join(models)}")
