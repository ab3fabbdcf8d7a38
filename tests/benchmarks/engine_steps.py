"""How fast the engine's stepper is by itself, in virtual time: what a simulation of a fleet may count on.

python -m tests.benchmarks.engine_steps
"""

import sys
import time

from headrace.devkit.engine import H100, TINY, Profile, Sequence, Stepper
from tests.support.entry import parser_of

CASES = ((TINY, 8, 2000), (H100, 64, 2000), (H100, 256, 4000), (H100, 1024, 6000))
PROMPT, ANSWER = 300, 200


def played(profile: Profile, running: int, requests: int) -> tuple[int, int, float, float]:
    """Steps, tokens, seconds of the engine, seconds of this machine's CPU, for requests that keep so many running."""
    stepper, now, left, steps, tokens = Stepper(profile), 0, requests, 0, 0
    begun = time.process_time()
    while left or stepper.running or stepper.waiting:
        while left and stepper.running + stepper.waiting < running:
            stepper.add(Sequence(PROMPT, ANSWER), now)
            left -= 1
        step = stepper.step(now)
        now += step.took_us
        steps += 1
        tokens += len(step.emitted)
    return steps, tokens, now / 1e6, time.process_time() - begun


def main() -> None:
    for profile, running, requests in CASES:
        steps, tokens, engine, cpu = played(profile, running, requests)
        sys.stdout.write(
            f"{profile.name}, {running} running: {cpu / steps * 1e6:.0f} us a step, {cpu / tokens * 1e9:.0f} ns a token, "
            f"{engine / cpu:.0f} times as fast as real\n"
        )


if __name__ == "__main__":
    parser_of(__spec__, __doc__).parse_args()
    main()
