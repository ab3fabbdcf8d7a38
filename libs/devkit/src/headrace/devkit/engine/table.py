"""What a profile's speed comes to, as rows for people: `headrace dev engine --table` and docs/engine.md. Pure."""

from headrace.devkit.engine.profiles import BLOCK, Profile

POINTS = ((1, 256), (4, 256), (16, 256), (64, 1024), (256, 1024))
"""Sequences that decode at once, and tokens of context of each."""
COLUMNS = ("running x context", "step ms", "tokens/s", "with a 1024-token prompt, ms")
SECOND_US, MILLISECOND_US = 1_000_000, 1000
PROMPT = 1024


def rows(profile: Profile) -> list[tuple[str, ...]]:
    """One row a point that the profile can hold: a step, all tokens in a second, and a step in which a prompt joins.

    None for a profile that takes no time.
    """
    made: list[tuple[str, ...]] = []
    for running, context in POINTS:
        step = profile.latency.step_us(running, running * context, 0)
        if not step or running > profile.max_num_seqs or running * context > profile.kv_blocks * BLOCK:
            continue
        joined = profile.latency.step_us(running + 1, running * context, PROMPT)
        speed = running * SECOND_US / step
        columns = (f"{step / MILLISECOND_US:.2f}", f"{speed:.0f}", f"{joined / MILLISECOND_US:.1f}")
        made.append((f"{running} x {context}", *columns))
    return made
