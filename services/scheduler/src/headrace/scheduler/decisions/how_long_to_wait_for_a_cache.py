"""How long does a request wait for the one backend whose cache has its beginning, while others have room?

Asked by core.routing. After delay scheduling (Zaharia and others, 2010): that backend is full for a moment, and waiting is
cheaper than computing the prompt anew. Invariant: never longer than that would take, so that no first token comes later for
it; at most LONGEST; and not at all where it would keep another tier from its turn.
"""

from datetime import timedelta

from headrace.contracts.durations import ms
from headrace.contracts.prefixes import BLOCK_TOKENS

LONGEST = timedelta(seconds=1)
_FAST_US = 20
"""For each prompt token, where nothing was measured: few engines are faster, so few wait for too long."""


def waits_ms(lost_blocks: int, prompt_us: int | None, *, alone: bool) -> int:
    """How long it may wait, in ms, before it goes where there is room. `lost_blocks`: those that no backend with room has;
    `prompt_us`: how long the pool takes for a prompt token; `alone`: no other tier has requests waiting.
    """
    if not alone:
        return 0
    return min(ms(LONGEST), lost_blocks * BLOCK_TOKENS * (prompt_us or _FAST_US) // 1_000)
