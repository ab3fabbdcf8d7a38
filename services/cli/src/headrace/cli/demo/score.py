"""What the demo's board comes to: shares against weights, waits, percentiles. Pure; called by whoever draws or prints.

Fairness is judged only over the times in which every tenant had work: it promises nothing to a tenant that asks for nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from headrace.cli.demo.board import Board, Row, State


@dataclass(frozen=True, slots=True)
class Share:
    """A tenant's part of the tokens so far, beside what its weight promises; both in 0..1."""

    tenant: str
    tokens: int
    got: float
    due: float


@dataclass(frozen=True, slots=True)
class Waits:
    """A tier's waits from acceptance until a backend began, in ms; None when none is known."""

    tier: str
    count: int
    p50_ms: int | None
    p95_ms: int | None


def shares(board: Board) -> list[Share]:
    """Token shares against weights, over the times in which every tenant had work in a tier; else over all."""
    by_tier = [_contended(board, tier) for tier in _tiers(board)]
    looks = [tokens for tokens in by_tier if any(tokens.values())] or [board.tokens()]
    got = {tenant: sum(tokens.get(tenant, 0) for tokens in looks) for tenant in board.weights}
    whole, weight = sum(got.values()), sum(board.weights.values())
    return [
        Share(tenant, got[tenant], got[tenant] / whole if whole else 0.0, mine / weight)
        for tenant, mine in board.weights.items()
    ]


def waits(board: Board) -> list[Waits]:
    """How long prompts waited until a backend began, by tier, in the order in which the tiers were planned."""
    return [_waits(board, tier) for tier in _tiers(board)]


def first_tokens(board: Board) -> dict[str, int | None]:
    """Median time from acceptance to the first token by tier, in ms, of the answers that were streamed."""
    return {
        tier: percentile(
            [row.first_token_ms for row in _answered(board, tier) if row.first_token_ms is not None], 50
        )
        for tier in _tiers(board)
    }


def first_answer_ms(board: Board) -> int | None:
    """When the first whole answer was there, ms since the demo's start."""
    ended = [row.ended_ms for row in board.rows.values() if row.state is State.SUCCEEDED]
    return min((ms for ms in ended if ms is not None), default=None)


def percentile(values: Iterable[int], percent: int) -> int | None:
    """The nearest-rank percentile: the least value that at least `percent` % of the values don't exceed."""
    ordered = sorted(values)
    if not ordered:
        return None
    return ordered[max(ceil(len(ordered) * percent / 100), 1) - 1]


def _contended(board: Board, tier: str) -> dict[str, int]:
    """Tokens by tenant of what was begun while every tenant had something waiting in this tier.

    By the recorded starts once all are known: fairness is decided when a prompt begins. Until then, as the board saw it.
    """
    rows = [row for row in board.rows.values() if row.ask.tier == tier]
    starts = {row.ask.number: row.started_ms for row in rows if row.started_ms is not None}
    if len(starts) < len(rows) or {row.ask.tenant for row in rows} != set(board.weights):
        return board.contended.get(tier, {})
    last = dict.fromkeys(board.weights, 0)
    for row in rows:
        last[row.ask.tenant] = max(last[row.ask.tenant], starts[row.ask.number])
    tokens = dict.fromkeys(board.weights, 0)
    for row in rows:
        if starts[row.ask.number] <= min(last.values()):
            tokens[row.ask.tenant] += row.tokens
    return tokens


def _tiers(board: Board) -> list[str]:
    return list(dict.fromkeys(row.ask.tier for row in board.rows.values()))


def _answered(board: Board, tier: str) -> list[Row]:
    return [row for row in board.rows.values() if row.ask.tier == tier and row.state is State.SUCCEEDED]


def _waits(board: Board, tier: str) -> Waits:
    times = [row.queued_ms for row in _answered(board, tier) if row.queued_ms is not None]
    return Waits(tier, len(times), percentile(times, 50), percentile(times, 95))
