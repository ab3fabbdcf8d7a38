"""Whether an engine computes the same prompts again and again, since its cache has no room for all that it was given.

Called by state.backend_limits for each sample of its metrics. An engine that lets a prompt in as soon as its first piece fits
(vLLM before it reserved whole prompts, vllm#37307) computes it up to where the cache is full, drops it, and begins with it
again: whoever decodes gets one token for each piece, and nobody behind it is let in. Instants in ms since boot.

Invariant: one late or wrong sample is no proof, and what was seen before the last remedy can show is none either.
"""

from typing import NamedTuple

from headrace.scheduler.decisions.how_many_requests_fit import LAG_MS, NEVER

LOOKS, ENOUGH = 8, 4
"""Of the latest samples so many must tell of preemptions: an engine that is merely full has some now and then."""


class Thrash(NamedTuple):
    """`risen`: of the latest samples, whether there were preemptions since the one before. `remedied_ms`: when something was
    taken back from it.
    """

    risen: tuple[bool, ...] = ()
    remedied_ms: int = NEVER


def after_sample(now: Thrash, *, preempted: bool, boot_ms: int) -> Thrash:
    """One more; gauges trail, so that for a while after a remedy they show what was before."""
    if boot_ms - now.remedied_ms < LAG_MS:
        return now._replace(risen=())
    return now._replace(risen=(*now.risen, preempted)[-LOOKS:])


def after_remedy(boot_ms: int) -> Thrash:
    """What was seen led to something: it takes as much again to prove that this wasn't enough."""
    return Thrash(remedied_ms=boot_ms)


def over_its_cache(now: Thrash, *, waiting: int | None, so_far: int, kv_tokens: int | None) -> int:
    """By how many tokens what it holds (`so_far`) is more than its cache, if that thrashes; else 0."""
    if sum(now.risen) < ENOUGH or not waiting or kv_tokens is None:
        return 0
    return max(0, so_far - kv_tokens)
