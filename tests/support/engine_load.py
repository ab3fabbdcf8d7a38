"""What a simulated engine is given to do, and what was seen of it. Used by simulated_engine and those who keep that busy."""

import random
from collections.abc import Sequence as Values
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Kind:
    """A sort of request: medians and spreads of log-normal lengths, the longest of each."""

    share: float
    prompt: int
    prompt_spread: float
    answer: int
    answer_spread: float
    most_prompt: int = 100_000
    most_answer: int = 32_000

    def draw(self, rng: random.Random) -> tuple[int, int]:
        prompt = round(self.prompt * rng.lognormvariate(0, self.prompt_spread))
        answer = round(self.answer * rng.lognormvariate(0, self.answer_spread))
        return max(1, min(prompt, self.most_prompt)), max(1, min(answer, self.most_answer))


@dataclass(slots=True)
class Span:
    """What was seen from one instant to another. `queue`: (waiting, for so many us); `running` likewise."""

    tokens: int = 0
    us: int = 0
    finished: int = 0
    preemptions: int = 0
    queue: list[tuple[int, int]] = field(default_factory=list)
    running: list[tuple[int, int]] = field(default_factory=list)
    held: list[tuple[int, int]] = field(default_factory=list)

    @property
    def tokens_per_s(self) -> float:
        return self.tokens * 1e6 / max(1, self.us)

    @staticmethod
    def at(values: Values[tuple[int, int]], share: float) -> int:
        """The value below which so much of the time was spent."""
        wanted = share * sum(us for _, us in values)
        for value, us in sorted(values):
            wanted -= us
            if wanted <= 0:
                return value
        return 0

    @staticmethod
    def mean(values: Values[tuple[int, int]]) -> float:
        return sum(value * us for value, us in values) / max(1, sum(us for _, us in values))
