"""Puts result-delivery together: DeliveryLoop for a process of its own, `serve` for all services in one process."""

import threading
from collections.abc import Iterable
from datetime import timedelta

from headrace.bus.ports import Bus, BusUnavailableError
from headrace.bus.topic_check import require_topics
from headrace.contracts.policy import Policy
from headrace.contracts.policy_changes import with_what_went
from headrace.contracts.topics import Topic, TopicKind, TopicNames, required_topics
from headrace.result_delivery.adapters.database import open_engine
from headrace.result_delivery.adapters.sql_store import SqlStore
from headrace.result_delivery.committing import Committing
from headrace.result_delivery.decisions.what_to_tell import Destinations
from headrace.result_delivery.forgetting import Forgetting
from headrace.result_delivery.judging import Judging
from headrace.result_delivery.letters import DeadLetters
from headrace.result_delivery.observing import DeliveryMetrics
from headrace.result_delivery.opening import Opening
from headrace.result_delivery.outbox import Outbox
from headrace.result_delivery.ports import Store
from headrace.result_delivery.publishing import Publishing
from headrace.result_delivery.reading import Reading
from headrace.result_delivery.service import ResultDelivery
from headrace.result_delivery.settings import DeliverySettings
from headrace.result_delivery.topic_watch import TopicWatch
from headrace.result_delivery.trimming import Trimming
from headrace.runtime.heartbeat import Vitals
from headrace.runtime.metrics import LoopMetrics
from headrace.runtime.telemetry import Telemetry

NAME = "result-delivery"
DELIVERY_TIMEOUT = timedelta(seconds=10)
TURN = timedelta(milliseconds=100)
_KINDS = (
    TopicKind.RESULTS,
    TopicKind.REQUESTS,
    TopicKind.ATTEMPTS,
    TopicKind.CONTROL,
    TopicKind.REPLIES,
    TopicKind.EVENTS,
    TopicKind.DLQ,
)


class DeliveryLoop:
    """The service as headrace.runtime.loop_supervisor runs it: opens what it needs, then turns."""

    name = NAME

    def __init__(self, settings: DeliverySettings, *, bus: Bus, policy: Policy, telemetry: Telemetry) -> None:
        self._settings, self._bus, self._policy, self._telemetry = settings, bus, policy, telemetry
        self._clock = telemetry.clock
        self._component = telemetry.health.component("delivery")
        self._metrics = DeliveryMetrics(telemetry.metrics)
        self._idle = threading.Event()
        self._store: Store | None = None
        self._opening: Opening | None = None
        self._delivery: ResultDelivery | None = None

    def start(self) -> None:
        """Connects to nothing yet: that is tried in the first turns. Raises DatabaseUrlError."""
        self._store = SqlStore(open_engine(self._settings.database), migrate=self._settings.migrate)
        steps = [self._check_topics, self._store.prepare, self._join]
        self._opening = Opening(steps, self._telemetry.clock, self._component)

    def turn(self) -> None:
        """A turn of the service, or a try at opening what it needs."""
        if self._opening is None or not self._opening.done() or self._delivery is None:
            self._idle.wait(TURN.total_seconds())
            return
        try:
            self._delivery.turn()
        except BusUnavailableError as error:
            self._leave()
            self._opening.again(self._join, error)

    def adopt(self, policy: Policy) -> None:
        """Another policy holds from the next turn on. With other pools or tiers other logs are read: those of what it has
        taken out, too, for what was accepted there.
        """
        before, self._policy = self._policy, with_what_went(self._policy, policy)
        others = (before.pools.keys(), before.tiers.keys()) != (
            self._policy.pools.keys(),
            self._policy.tiers.keys(),
        )
        if others and self._delivery is not None and self._opening is not None:
            self._leave()
            self._opening.then(self._join)

    def drain(self) -> bool:
        """As ResultDelivery.drain."""
        return self._delivery is None or self._delivery.drain()

    def stop(self) -> None:
        """Lets go of all that was opened."""
        self._leave()
        if self._store is not None:
            self._store.close()

    def _join(self) -> None:
        """Builds the service anew and joins the group. Raises BusUnavailableError, having left nothing open."""
        if self._store is None:
            return
        self._delivery = self._built(self._store)
        try:
            self._delivery.start()
        except BusUnavailableError:
            self._leave()
            raise

    def _leave(self) -> None:
        if self._delivery is not None:
            self._delivery.stop()
            self._delivery = None

    def _check_topics(self) -> None:
        topics = self._bus.topics(self._client_name)
        try:
            require_topics(topics, topics_of(self._settings.prefix, self._policy))
        finally:
            topics.close()

    @property
    def _client_name(self) -> str:
        return f"{NAME}-{self._settings.name}"

    def _built(self, store: Store) -> ResultDelivery:
        names, bus, clock, metrics = TopicNames(self._settings.prefix), self._bus, self._clock, self._metrics
        producer = bus.loop_producer(self._client_name, delivery_timeout=DELIVERY_TIMEOUT)
        outbox = Outbox(producer, clock)
        letters = DeadLetters(producer, names.of(TopicKind.DLQ), clock, metrics)
        judging = Judging(names, self._policy.pools, self._policy.tiers)
        reading = self._reading(store, judging)
        committing = Committing(
            store=store,
            outbox=outbox,
            letters=letters,
            destinations=self._destinations(names),
            clock=clock,
            metrics=metrics,
            id_of=reading.id_of,
        )
        history, trims = self._policy.topics.history, bus.trims(self._client_name)
        return ResultDelivery(
            reading=reading,
            committing=committing,
            outbox=outbox,
            letters=letters,
            publishing=Publishing(producer, names, judging.pool_of, clock),
            trimming=Trimming(trims, names.of(TopicKind.RESULTS), history, clock, metrics),
            forgetting=Forgetting(store, lambda: self._policy.keep.results, clock),
            producer=producer,
            store=store,
            clock=clock,
            metrics=metrics,
            component=self._component,
        )

    def _reading(self, store: Store, judging: Judging) -> Reading:
        name, bus = self._client_name, self._bus
        reader = bus.group_reader(name, self._settings.prefix + NAME)
        watch = TopicWatch(bus.topic_ids(name), self._clock)
        accept_loss = self._settings.accept_loss
        return Reading(reader, store, judging, watch, self._metrics, accept_loss=accept_loss)

    def _destinations(self, names: TopicNames) -> Destinations:
        gateways = self._policy.topics.gateways
        return Destinations(names.of(TopicKind.REPLIES), names.of(TopicKind.EVENTS), gateways)


def topics_of(prefix: str, policy: Policy) -> Iterable[Topic]:
    """The topics that result-delivery reads or writes."""
    every = required_topics(
        TopicNames(prefix), policy.topics.counts(), pools=policy.pools, tiers=policy.tiers
    )
    return (topic for topic in every if topic.rule.kind in _KINDS)


def serve(
    settings: DeliverySettings, *, bus: Bus, policy: Policy, telemetry: Telemetry, stop: threading.Event
) -> None:
    """Runs until `stop` is set, then drains and returns. Raises what the service can't live with."""
    loop = DeliveryLoop(settings, bus=bus, policy=policy, telemetry=telemetry)
    heartbeat = Vitals(telemetry.health, LoopMetrics(telemetry.metrics)).heartbeat(NAME)
    try:
        loop.start()
        while not stop.is_set():
            began_ms = telemetry.clock.now().boot_ms
            loop.turn()
            heartbeat.turned(timedelta(milliseconds=telemetry.clock.now().boot_ms - began_ms) - TURN)
        loop.drain()
    finally:
        loop.stop()
