"""What all processes of one run share: time, chance, the broker, the wire's weather, and the history. Made by world.run.

Invariant: everything random comes from one generator, seeded once.
"""

from collections import Counter
from random import Random

from headrace.contracts.ids import AttemptId
from headrace.contracts.policy import Policy
from headrace.contracts.topics import required_topics
from tests.simulation.world.broker import Broker
from tests.simulation.world.clockwork import Clockwork
from tests.simulation.world.wire import Weather
from tests.support.scheduler.pure import NAMES, policy

TIERS = ("interactive", "batch")
TENANTS = ("a", "b")
GATEWAYS = 2
LANES = 2
POLICY = policy(lanes=LANES, headroom_percent=10, gateways=GATEWAYS, history=2)
AWAY = "away"
"""The other pool, in worlds that have two: the first falls back on it once it was slow, or without a backend, for 2 s."""


class Stage:
    """The shared things of one run."""

    def __init__(self, seed: int, policy: Policy = POLICY) -> None:
        self.policy = policy
        self.rng = Random(seed)  # noqa: S311 a seed is a history
        self.clockwork = Clockwork()
        self.broker = Broker(self.clockwork)
        self.seen: Counter[str] = Counter()
        self.weather = Weather(self.rng, self.seen)
        self.notes: list[tuple[int, str, str]] = []
        self.lags: dict[tuple[str, str], int] = {}
        """(process, topic) -> until when it doesn't see what is new there: for written schedules."""
        self.broken: list[str] = []
        """What went wrong already while it ran."""
        self.texts: dict[tuple[str, AttemptId], str] = {}
        """What a request's attempt says from beginning to end, with what it goes on from. Pools number alike."""
        self.stopped: dict[tuple[str, AttemptId], str] = {}
        """What a request's attempt had said when it was stopped."""
        topics = required_topics(NAMES, policy.topics.counts(), pools=policy.pools, tiers=TIERS)
        self.broker.create(topics)

    @property
    def now_ms(self) -> int:
        """The virtual instant."""
        return self.clockwork.now_ms

    @property
    def faulty(self) -> bool:
        """Whether something may still go wrong."""
        return self.weather.faulty

    def note(self, who: str, what: str) -> None:
        """A line of the history."""
        self.notes.append((self.now_ms, who, what))

    def saw(self, what: str, times: int = 1) -> None:
        """Count something that should happen sometimes."""
        self.seen[what] += times

    def wake_ms(self) -> int:
        """How long until somebody notices what came for it."""
        if self.weather.calm:
            return 1
        return self.rng.choice((1, 5, 15, 30)) if self.faulty else 10
