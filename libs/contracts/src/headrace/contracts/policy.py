"""What the operator wrote: tiers, pools, tenants, topic counts. Frozen data; what happened since is state, elsewhere.

Converted from TOML by `policy_from`; read by ingest (who may ask for what) and the scheduler (weights, time-outs).
"""

from collections.abc import Iterator
from datetime import timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from headrace.contracts.durations import parse, render
from headrace.contracts.fallbacks import Fallback, mistakes_in_fallbacks
from headrace.contracts.topics import TopicCounts
from headrace.contracts.values import Name

PolicyName = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]
KeyHash = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
Weight = Annotated[int, Meta(ge=1, le=1_000_000)]
Percent = Annotated[int, Meta(ge=0, le=100)]
_SHORTEST, _LONGEST = timedelta(seconds=1), timedelta(days=366)
Amount = Annotated[int, Meta(ge=1, le=10**12)]
MOST_CEILINGS = 8

SERVICE_UNIT = 1_000_000
"""Costs are counted in micro service units: so many are one unit, as operators see it."""


class TierPolicy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A class of service: its weight, the share of work it is sure of, and how long a request may wait to start."""

    weight: Weight
    floor_percent: Percent = 0
    queue_timeout: timedelta = timedelta(minutes=10)
    headroom_percent: Percent = 0
    preemptible: bool = False


class CostWeights(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Micro service units for a token: uncached prompt, cached prompt, completion."""

    prompt: Annotated[int, Meta(ge=0)] = 1_000_000
    cached: Annotated[int, Meta(ge=0)] = 100_000
    completion: Annotated[int, Meta(ge=0)] = 2_000_000


class Spent(StrEnum):
    """What a ceiling counts: prompt and completion tokens together, or attempts."""

    TOKENS = "tokens"
    REQUESTS = "requests"


class CeilingPolicy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """So many `tokens`, or so many `requests`, in so long a time, and so many of them at once; by default a sixth."""

    tokens: Amount | None = None
    requests: Amount | None = None
    per: timedelta = timedelta(minutes=1)
    at_once: Amount | None = None

    @property
    def spent(self) -> Spent:
        """What it counts."""
        return Spent.REQUESTS if self.tokens is None else Spent.TOKENS

    @property
    def amount(self) -> int:
        """How much of it."""
        return self.tokens or self.requests or 1

    @property
    def most_at_once(self) -> int:
        """How much after a time in which nothing was spent."""
        return self.at_once or max(1, self.amount // 6)


Ceilings = Annotated[tuple[CeilingPolicy, ...], Meta(max_length=MOST_CEILINGS)]


class PoolPolicy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The backends that serve these models. `models` maps the name that callers use to the name the backend knows.

    `ceilings`: what all of them together are given at most, as hosted APIs allow it.
    `context_length`: the most tokens that prompt and answer may have together; None: not told. `media_tokens`: the most that
    one image, film or file of a prompt counts; `reasoning_tokens`: the most that an answer has beside its `max_tokens`; None:
    as many as its context has room for.
    """

    models: dict[Name, Name]
    cost: CostWeights = CostWeights()
    max_attempts: Annotated[int, Meta(ge=1, le=100)] = 4
    default_max_tokens: Annotated[int, Meta(ge=1)] = 256
    ceilings: Ceilings = ()
    context_length: Annotated[int, Meta(ge=1, le=2**53)] | None = None
    media_tokens: Annotated[int, Meta(ge=1, le=2**53)] | None = None
    reasoning_tokens: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    fallbacks: tuple[Fallback, ...] = ()


class TenantPolicy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who is served: weight among tenants, API keys as SHA-256 hex digests, and the tiers it may use.

    `retry_percent` of its attempts in the last minute, and `retry_minimum` besides, may be retries. `ceilings`: what it may
    spend at most, in each pool; what is over them waits. `fallbacks` false: its requests stay in the pool that they came
    into.
    """

    weight: Weight = 1
    key_sha256: tuple[KeyHash, ...] = ()
    default_tier: PolicyName = "standard"
    tiers: tuple[PolicyName, ...] | None = None
    retry_percent: Percent = 20
    retry_minimum: Annotated[int, Meta(ge=0, le=1_000_000)] = 60
    ceilings: Ceilings = ()
    fallbacks: bool = True


class TopicPolicy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Partition and replica counts of all topics. Changing a count of a running system moves no accepted request.

    `history`: how many records of each partition of `requests`, `attempts`, `control` and `results` stay in the log after
    nobody needs them any more.
    """

    tenant_partitions: Annotated[int, Meta(ge=1, le=4096)] = 8
    lanes: Annotated[int, Meta(ge=1, le=4096)] = 16
    gateways: Annotated[int, Meta(ge=1, le=4096)] = 4
    replication_factor: Annotated[int, Meta(ge=1, le=9)] = 1
    min_insync_replicas: Annotated[int, Meta(ge=1, le=9)] = 1
    history: Annotated[int, Meta(ge=0, le=2**53)] = 10_000

    def counts(self) -> TopicCounts:
        """As the topic table takes them."""
        counts = msgspec.structs.asdict(self)
        del counts["history"]
        return TopicCounts(**counts)


class KeepPolicy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long the database keeps what has ended: `results` with its request; None: for ever. The ledger is never deleted."""

    results: timedelta | None = None


DEFAULT_TIERS = {
    "interactive": TierPolicy(
        weight=16, floor_percent=10, queue_timeout=timedelta(seconds=30), headroom_percent=10
    ),
    "standard": TierPolicy(weight=4, floor_percent=10, queue_timeout=timedelta(minutes=10)),
    "batch": TierPolicy(weight=1, floor_percent=5, queue_timeout=timedelta(hours=24), preemptible=True),
}


class Policy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole policy file. Checked as a whole: see `mistakes_in`."""

    pools: dict[PolicyName, PoolPolicy]
    tenants: dict[PolicyName, TenantPolicy] = {}
    tiers: dict[PolicyName, TierPolicy] = field(default_factory=DEFAULT_TIERS.copy)
    topics: TopicPolicy = TopicPolicy()
    keep: KeepPolicy = KeepPolicy()

    def pool_of(self, model: str) -> str | None:
        """The pool that serves the name a caller asks for."""
        return next((name for name, pool in self.pools.items() if model in pool.models), None)

    def tenant_of(self, key: str) -> str | None:
        """Whose API key this is. Compares digests, so timing tells nothing about a key."""
        digest = hash_key(key)
        return next((name for name, tenant in self.tenants.items() if digest in tenant.key_sha256), None)


def hash_key(key: str) -> str:
    """The SHA-256 hex digest under which an API key is kept. Keys are random, so no salt or stretching is needed."""
    return sha256(key.encode()).hexdigest()


def policy_from(document: dict[str, Any]) -> Policy:
    """A policy from a parsed TOML document. Durations are texts such as "30s", "10m", "24h".

    Raises ValueError (msgspec.ValidationError for a wrong shape), whose message names the place.
    """
    policy = msgspec.convert(_with_durations(document), Policy, strict=True)
    if mistakes := mistakes_in(policy):
        raise ValueError("; ".join(mistakes))
    return policy


def mistakes_in(policy: Policy) -> list[str]:
    """What is well formed but can't be meant, one sentence each, with the place in the file."""
    found = []
    if sum(tier.floor_percent for tier in policy.tiers.values()) > 100:
        found.append("tiers.*.floor_percent: the floors of all tiers add up to more than 100")
    models: dict[str, str] = {}
    for name, pool in policy.pools.items():
        found += [
            f"pools.{name}.models: {model!r} is served by pool {models[model]!r} already"
            for model in pool.models
            if models.setdefault(model, name) != name
        ]
    found += _mistaken_ceilings(policy)
    for name, tenant in policy.tenants.items():
        unknown = {tenant.default_tier, *(tenant.tiers or ())} - set(policy.tiers)
        found += [f"tenants.{name}: there is no tier {tier!r}" for tier in sorted(unknown)]
        if tenant.tiers is not None and tenant.default_tier not in tenant.tiers:
            found.append(f"tenants.{name}.default_tier: {tenant.default_tier!r} is not among its tiers")
    if policy.topics.min_insync_replicas > policy.topics.replication_factor:
        found.append("topics.min_insync_replicas: greater than topics.replication_factor")
    return found + mistakes_in_fallbacks(policy.pools)


def _mistaken_ceilings(policy: Policy) -> Iterator[str]:
    whose = [(f"pools.{name}", pool.ceilings) for name, pool in policy.pools.items()]
    whose += [(f"tenants.{name}", tenant.ceilings) for name, tenant in policy.tenants.items()]
    for place, ceilings in whose:
        counted = [(each.spent, each.per) for each in ceilings]
        for number, each in enumerate(ceilings):
            at = f"{place}.ceilings[{number}]"
            if (each.tokens is None) is (each.requests is None):
                yield f"{at}: say either tokens or requests"
            if not _SHORTEST <= each.per <= _LONGEST:
                yield f"{at}.per: not between {render(_SHORTEST)} and {render(_LONGEST)}"
            if counted[number] in counted[:number]:
                yield f"{at}: there is one of {each.spent} per {render(each.per)} already"


def _with_durations(document: dict[str, Any]) -> dict[str, Any]:
    """The document with its durations as such: msgspec itself only reads ISO 8601."""
    converted, tiers, keep = dict(document), document.get("tiers"), document.get("keep")
    for kind in ("pools", "tenants"):
        if isinstance(tables := document.get(kind), dict):
            converted[kind] = {
                name: _with_each(
                    _with_each(table, "ceilings", "per", f"{kind}.{name}"),
                    "fallbacks",
                    "wait_above",
                    f"{kind}.{name}",
                )
                for name, table in tables.items()
            }
    if isinstance(tiers, dict):
        converted["tiers"] = {
            name: _with_duration(tier, "queue_timeout", f"tiers.{name}") for name, tier in tiers.items()
        }
    if isinstance(keep, dict):
        converted["keep"] = _with_duration(keep, "results", "keep")
    return converted


def _with_each(table: object, key: str, duration: str, place: str) -> object:
    """A table with this duration in each member of the list under a key."""
    if not isinstance(table, dict) or not isinstance(members := table.get(key), list):
        return table
    return {
        **table,
        key: [
            _with_duration(member, duration, f"{place}.{key}[{number}]")
            for number, member in enumerate(members)
        ],
    }


def _with_duration(table: object, key: str, place: str) -> object:
    if not isinstance(table, dict) or not isinstance(table.get(key), str):
        return table
    try:
        return {**table, key: parse(table[key])}
    except ValueError as error:
        raise ValueError(f"{place}.{key}: {error}") from error
