"""What a replica keeps ready for a pool while it stands by, and goes on with once it owns it. Made by pool_loop.

Invariant: everything is connected long before it is needed: a new producer alone waits half a second for its id.
"""

from headrace.scheduler.core.setting import Setting
from headrace.scheduler.following import Following
from headrace.scheduler.ports import PoolBus
from headrace.scheduler.state_log import StateLog
from headrace.scheduler.topics_look import TopicsLook


class Warm:
    """The clients, and the logs that are followed with them."""

    def __init__(self, setting: Setting, bus: PoolBus, name: str, known: dict[str, str]) -> None:
        """`known`: ids of the pool's topics, by name, as far as this process knows them."""
        self.producer = bus.loop_producer(name, delivery_timeout=setting.timings.delivery)
        self.reader, self.ends, self.trims = bus.loop_reader(name), bus.ends(name), bus.trims(name)
        self.rereads = bus.rereads(f"{name}-again")
        self.topics = TopicsLook(setting, bus.topic_ids(name), known)
        self.log = StateLog(setting, bus.loop_reader(name))
        self.following = Following(setting, self.reader)

    def close(self, *, drop: bool = False) -> None:
        """Let go of everything. `drop`: the pool is lost, so nothing more may be written."""
        self.producer.close(drop=drop)
        self.reader.close()
        self.rereads.close()
        self.ends.close()
        self.trims.close()
        self.topics.close()
        self.log.close()
