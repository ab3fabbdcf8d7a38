"""What a pool's owner is told and what doesn't change while it owns it. Made by wiring, read by the core and the loop."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headrace.bus.messages import Place
from headrace.contracts.policy import Policy, PoolPolicy
from headrace.contracts.topics import TopicKind, TopicNames
from headrace.scheduler.decisions.is_it_over_its_ceiling import Ceiling, ceiling_of
from headrace.scheduler.decisions.what_to_spill import SpillBounds
from headrace.scheduler.decisions.when_to_pause import Window
from headrace.scheduler.timings import Timings


@dataclass(frozen=True, slots=True)
class Setting:
    """What doesn't change while a pool is owned. `random` gives numbers in [0, 1). `spill` None: all is kept whole."""

    pool: str
    owner: str
    policy: Policy
    names: TopicNames
    timings: Timings
    window: Window
    random: Callable[[], float]
    spill: SpillBounds | None = None
    replicas: tuple[str, ...] = ()
    """Names of all scheduler replicas; empty: not told."""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """Topic name -> its id: a topic that was made anew has another, and old offsets mean nothing in it."""

    @property
    def pool_policy(self) -> PoolPolicy:
        """This pool's part of the policy."""
        return self.policy.pools[self.pool]

    @property
    def ceilings(self) -> tuple[list[Ceiling], dict[str, list[Ceiling]]]:
        """Those of this pool, and those of each tenant."""
        tenants = self.policy.tenants.items()
        of_tenants = {name: [ceiling_of(each) for each in tenant.ceilings] for name, tenant in tenants}
        return [ceiling_of(each) for each in self.pool_policy.ceilings], of_tenants

    def place(self, kind: TopicKind, partition: int = 0) -> Place:
        """A partition of one of this pool's topics, or of a topic that all share."""
        return Place(self.names.of(kind, pool=self.pool), partition)

    def request_places(self) -> list[Place]:
        """Every partition of its request topics."""
        partitions = range(self.policy.topics.tenant_partitions)
        return [Place(topic, number) for topic in self.request_topics() for number in partitions]

    def logs(self) -> list[Place]:
        """Every partition whose positions a checkpoint holds."""
        partitions = range(self.policy.topics.tenant_partitions)
        attempts = [self.place(TopicKind.ATTEMPTS, number) for number in partitions]
        return [*self.request_places(), *attempts, self.place(TopicKind.CONTROL)]

    def topics_to_know(self) -> list[str]:
        """Topics that must stay the ones they were, since offsets in them are kept."""
        mine = (TopicKind.STATE, TopicKind.ATTEMPTS, TopicKind.CONTROL)
        return [*self.request_topics(), *(self.place(kind).topic for kind in mine)]

    def request_topics(self) -> dict[str, str]:
        """The name of each request topic -> its tier."""
        names = self.names
        return {names.of(TopicKind.REQUESTS, pool=self.pool, tier=tier): tier for tier in self.policy.tiers}

    def taken_in(self) -> dict[str, int]:
        """In which order the records of topics are taken in; `attempts` first: a report without an attempt was written after
        that attempt's outcome.
        """
        kinds = {TopicKind.ATTEMPTS: 0, TopicKind.CONTROL: 1, TopicKind.WORKERS: 3, TopicKind.QUEUE_STATE: 4}
        order = {self.place(kind).topic: number for kind, number in kinds.items()}
        return order | dict.fromkeys(self.request_topics(), 2)
