"""What a development stack is made of: backends, tenants' keys, the policy file. Pure; called by both kinds of stack."""

import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headrace.cli.api_keys import mint_key, policy_line

_TENANT_TABLE = re.compile(
    r'^\[tenants\.(?P<quote>"?)(?P<name>[a-z0-9_-]+)(?P=quote)\][ \t]*(#.*)?$', re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Backend:
    """One model server and the pool it serves; `limit` is how many requests it takes at once."""

    pool: str
    url: str
    kind: str = "openai"
    limit: int = 4


@dataclass(frozen=True, slots=True)
class Admitted:
    """A policy's text with a key for every tenant, and the keys by tenant."""

    text: str
    keys: dict[str, str]


def admit(policy: str, mint: Callable[[], str] = mint_key) -> Admitted:
    """Gives a new key to each `[tenants.NAME]` of the text that has none. Raises ValueError on broken TOML."""
    tenants = tomllib.loads(policy).get("tenants", {})
    keys = {name: mint() for name in tenants if not tenants[name].get("key_sha256")}

    def with_key(table: re.Match[str]) -> str:
        key = keys.get(table["name"])
        return table[0] if key is None else f"{table[0]}\n{policy_line(key)}"

    return Admitted(_TENANT_TABLE.sub(with_key, policy), keys)


def policy_for(
    weights: dict[str, int], models: dict[str, dict[str, str]], *, queue_timeout: str = "5m"
) -> str:
    """A policy's text: these tenants, these pools with their models, tiers whose time-outs fit a loaded laptop."""
    return "\n".join(_policy_lines(weights, models, queue_timeout)) + "\n"


def _policy_lines(
    weights: dict[str, int], models: dict[str, dict[str, str]], queue_timeout: str
) -> Iterator[str]:
    for tier, weight, floor in (("interactive", 16, 10), ("standard", 4, 10), ("batch", 1, 5)):
        yield f'[tiers.{tier}]\nweight = {weight}\nfloor_percent = {floor}\nqueue_timeout = "{queue_timeout}"'
    for pool, names in models.items():
        yield f"[pools.{pool}.models]"
        yield from (f'"{name}" = "{known_as}"' for name, known_as in names.items())
    for tenant, weight in weights.items():
        yield f"[tenants.{tenant}]\nweight = {weight}"
