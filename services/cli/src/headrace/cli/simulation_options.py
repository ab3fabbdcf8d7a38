"""Reads what `headrace simulate` is told in words: seeds, slacks, shares of tiers. Called by that command.

Invariant: whatever can't be meant is Trouble whose sentence names the option.
"""

from collections.abc import Iterable
from datetime import timedelta

from headrace.cli.trouble import Trouble
from headrace.contracts.durations import ms, parse
from headrace.runtime.suggestions import did_you_mean

_MOST_SEEDS = 10_000


def seeds_of(text: str) -> range:
    """`7` or `0..19`, both ends included."""
    first, _, last = text.partition("..")
    try:
        seeds = range(int(first), int(last or first) + 1)
    except ValueError:
        raise Trouble(f'--seeds is "{text}": expected numbers such as 0..19') from None
    if not 0 < len(seeds) <= _MOST_SEEDS or seeds[0] < 0:
        raise Trouble(f'--seeds is "{text}": expected 1 to {_MOST_SEEDS} seeds from 0 on, the lesser first')
    return seeds


def names_of(text: str, known: Iterable[str]) -> list[str]:
    """`fifo,headrace`: each once, in the order given."""
    names = list(dict.fromkeys(filter(None, text.split(","))))
    for name in names:
        if name not in known:
            raise Trouble(f"--compare names {name}: {did_you_mean(name, known)}")
    if not names:
        raise Trouble("--compare names nothing to compare")
    return names


def shares_of(text: str | None) -> dict[str, float]:
    """`interactive=0.3,batch=0.7`: shares of the requests by tier."""
    shares = {}
    for part in (text or "").split(",") if text else ():
        name, _, share = part.partition("=")
        shares[name] = _share(share, text)
    if shares and sum(shares.values()) <= 0:
        raise Trouble(f'--tiers is "{text}": the shares add up to nothing')
    return shares


def slacks_of(text: str | None, tiers: Iterable[str]) -> dict[str, tuple[int, int]]:
    """`5s..30s` for all tiers, or `interactive=5s..30s,standard=1m..2m` for these; milliseconds by tier."""
    slacks: dict[str, tuple[int, int]] = {}
    for part in (text or "").split(",") if text else ():
        name, named, bounds = part.rpartition("=")
        slack_ms = _slack(bounds, text)
        slacks |= {name: slack_ms} if named else dict.fromkeys(tiers, slack_ms)
    return slacks


def duration_us(text: str, option: str) -> int:
    """`25ms` in microseconds, more than nothing."""
    try:
        microseconds = parse(text) // timedelta(microseconds=1)
    except ValueError as error:
        raise Trouble(f'{option} is "{text}": {error}') from None
    if microseconds <= 0:
        raise Trouble(f'{option} is "{text}": expected more than nothing')
    return microseconds


def _share(text: str, whole: str | None) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise Trouble(f'--tiers is "{whole}": expected shares from 0 to 1, such as interactive=0.3,batch=0.7')
    return share


def _slack(text: str, whole: str | None) -> tuple[int, int]:
    least, between, most = text.partition("..")
    try:
        bounds = ms(parse(least)), ms(parse(most))
    except ValueError:
        bounds = (1, 0)
    if not between or bounds[0] > bounds[1]:
        raise Trouble(f'--slack is "{whole}": expected two durations, the lesser first, such as 5s..30s')
    return bounds
