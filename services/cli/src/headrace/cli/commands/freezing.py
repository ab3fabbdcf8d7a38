"""`headrace queue freeze`, `thaw` and `frozen`: whom an operator holds back in a pool. Offered by commands.queue."""

from dataclasses import dataclass
from datetime import timedelta
from time import monotonic, sleep
from typing import Annotated

import msgspec
import typer

from headrace.cli.holds import Holds, holds_of
from headrace.cli.log_reading import Logs, logs_of
from headrace.cli.option_groups import OptionGroup, with_groups
from headrace.cli.options import AsJson, Where, policy_of, require_pool
from headrace.cli.queue_filters import OfTenant, OfTier, Pool, Within, patience_of, selection_of
from headrace.cli.terminal import say, say_json, show_table
from headrace.cli.trouble import Trouble
from headrace.contracts.control import Freeze, Thaw
from headrace.contracts.durations import render
from headrace.contracts.topics import TopicKind

_LOOK_AGAIN_S = 0.1


@dataclass(frozen=True)
class Whom(OptionGroup):
    """Who is meant: a tenant, a tier, a tenant in a tier, or all."""

    tier: OfTier = None
    tenant: OfTenant = None
    everything: Annotated[bool, typer.Option("--all", help="The whole pool.")] = False

    def named(self, pool: str) -> str:
        """In words."""
        of_tier = "" if self.tier is None else f"{self.tier} of "
        return f"{of_tier}{pool}" if self.tenant is None else f"{self.tenant} in {of_tier}{pool}"


@with_groups
def freeze(pool: Pool, *, whom: Whom, within: Within = "15s", where: Where) -> None:
    """Hold back a tenant, a tier, a tenant in a tier, or the whole pool, until it is thawed. Nothing is lost by it."""
    _order(pool, whom, within, where, freezes=True)
    say(f"{whom.named(pool)} is held back; what runs goes on")


@with_groups
def thaw(pool: Pool, *, whom: Whom, within: Within = "15s", where: Where) -> None:
    """Let those go on whom `freeze` held back in the same words."""
    _order(pool, whom, within, where, freezes=False)
    say(f"{whom.named(pool)} goes on, as far as no other hold stands: see `headrace queue frozen`")


@with_groups
def frozen(pool: Pool, *, where: Where, as_json: AsJson = False) -> None:
    """Print who is held back in a pool."""
    settings = where.settings()
    require_pool(settings, pool)
    with logs_of(settings) as logs:
        holds = _look(logs, pool)
    if as_json:
        say_json([msgspec.to_builtins(each) for each in holds])
    elif not any(each.whole or each.tenants for each in holds):
        say(f"nobody is held back in {pool}")
    else:
        rows = (
            (each.tier, "all" if each.whole else ", ".join(each.tenants), str(each.depth)) for each in holds
        )
        show_table(("tier", "held back", "requests"), rows)


def _order(pool: str, whom: Whom, within: str, where: Where, *, freezes: bool) -> None:
    settings, tier, tenant = where.settings(), whom.tier, whom.tenant
    require_pool(settings, pool)
    if whom.everything is not (tier is None and tenant is None):
        raise Trouble("name whom by --tenant, --tier or both, or say --all and neither of them")
    selection_of(policy_of(settings), tier=tier, tenant=tenant)  # may refuse
    patience = patience_of(within)
    with logs_of(settings) as logs:
        logs.order(pool, (Freeze if freezes else Thaw)(tier=tier, tenant=tenant))
        with logs.following(TopicKind.QUEUE_STATE) as states:
            since, asked = states.end(), monotonic()
        while (waited := timedelta(seconds=monotonic() - asked)) < patience:
            told = [each for each in _look(logs, pool) if tier in (None, each.tier)]
            if told and all(each.obeys(tenant, since, waited, freezes=freezes) for each in told):
                return
            sleep(_LOOK_AGAIN_S)
    raise Trouble(
        f"the owner of {pool} hasn't obeyed within {render(patience)}; it will as soon as there is one: see "
        "`headrace pools show` and `headrace queue frozen`"
    )


def _look(logs: Logs, pool: str) -> list[Holds]:
    with logs.following(TopicKind.QUEUE_STATE) as states:
        return holds_of(pool, [(received.offset, record) for received, record in states.to_end()])
