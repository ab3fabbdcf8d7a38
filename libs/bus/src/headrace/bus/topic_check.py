"""Compares the topics that must exist with those that do. Called by every service before it starts and by `headrace topics`.

Invariant: nothing here shrinks or deletes a topic; what can't be mended is refused with a sentence.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from time import monotonic, sleep

from headrace.bus.ports import BusError, FoundTopic, TooFewBrokersError, Topics
from headrace.contracts.durations import render
from headrace.contracts.mistakes import CannotRunError
from headrace.contracts.topics import Topic

_LOOK_AGAIN_S = 0.2
_TOLD = 3
"""Differences that a refusal names, so that what to do about them fits into a log line."""


class WrongTopicsError(BusError, CannotRunError):
    """Topics are missing or not as they must be; the message says which, and what to run."""


def differences(required: Iterable[Topic], found: Mapping[str, FoundTopic]) -> list[str]:
    """One sentence for each thing that differs; none when all is well."""
    return [sentence for topic in required for sentence in _of_one(topic, found.get(topic.name))]


def _of_one(topic: Topic, found: FoundTopic | None) -> list[str]:
    if found is None:
        return [f"the topic {topic.name} is missing"]
    sentences = []
    if found.partitions != topic.partitions:
        which = "fewer" if found.partitions < topic.partitions else "more"
        sentences.append(
            f"the topic {topic.name} has {found.partitions} partitions, {which} than the {topic.partitions} required"
        )
    if found.replication_factor != topic.replication_factor:
        sentences.append(
            f"the topic {topic.name} has replication factor {found.replication_factor}, not {topic.replication_factor}"
        )
    return sentences + [
        f"the topic {topic.name} has {name}={found.configs.get(name, 'unset')}, not {value}"
        for name, value in wrong_configs(topic, found).items()
    ]


def wrong_configs(topic: Topic, found: FoundTopic) -> dict[str, str]:
    """The required settings that the topic doesn't have."""
    return {name: value for name, value in topic.configs().items() if found.configs.get(name) != value}


def require_topics(topics: Topics, required: Iterable[Topic]) -> None:
    """Raises WrongTopicsError when anything differs, and BusUnavailableError when no broker answers."""
    required = tuple(required)
    found = topics.describe([topic.name for topic in required])
    if sentences := differences(required, found):
        told = sentences[:_TOLD] + [f"and {len(sentences) - _TOLD} more"] * (len(sentences) > _TOLD)
        raise WrongTopicsError("; ".join(told) + ": run `headrace topics apply`")


def lacking(make: Callable[[], Topics], required: Iterable[Topic]) -> str | None:
    """What of these topics isn't as it must be, in a sentence; None: nothing. `make` makes a client, which is closed."""
    try:
        topics = make()
        try:
            require_topics(topics, required)
        finally:
            topics.close()
    except BusError as error:
        return str(error)
    return None


def apply_topics(
    topics: Topics, required: Iterable[Topic], within: timedelta = timedelta(seconds=30)
) -> list[str]:
    """Creates what is missing, adds partitions, changes settings; a sentence for each thing done, none when all was well.

    Brokers that have just started take part in nothing at first: so long are as many waited for as a topic is copied to.
    Raises WrongTopicsError, before anything is changed, when a topic would have to shrink or be copied otherwise, and
    TooFewBrokersError.
    """
    required = tuple(required)
    found = topics.describe([topic.name for topic in required])
    if refused := [
        sentence for topic in required for sentence in _not_mendable(topic, found.get(topic.name))
    ]:
        raise WrongTopicsError("; ".join(refused) + ": nothing was changed")
    missing = [topic for topic in required if topic.name not in found]
    if missing:
        _create(topics, missing, within)
    done = [
        f"created {topic.name} with {topic.partitions} partition{'s' * (topic.partitions != 1)}"
        for topic in missing
    ]
    for topic in required:
        if topic.name in found:
            done += _mend(topics, topic, found[topic.name])
    return done


def _create(topics: Topics, missing: list[Topic], within: timedelta) -> None:
    """Those that exist by now are created once more, which is no error."""
    deadline = monotonic() + within.total_seconds()
    while True:
        try:
            topics.create(missing)
        except TooFewBrokersError as error:
            if monotonic() > deadline:
                raise TooFewBrokersError(
                    f"after {render(within)} there are too few brokers: {error}. Start the others, or let the policy's "
                    "replication_factor be at most as many as there are"
                ) from error
            sleep(_LOOK_AGAIN_S)
        else:
            return


def _not_mendable(topic: Topic, found: FoundTopic | None) -> list[str]:
    if found is None:
        return []
    sentences = []
    if found.partitions > topic.partitions:
        sentences.append(
            f"{topic.name} has {found.partitions} partitions and Kafka can't shrink it to {topic.partitions}: "
            f"set the counts to what it has"
        )
    if found.replication_factor != topic.replication_factor:
        sentences.append(
            f"{topic.name} has replication factor {found.replication_factor}, not {topic.replication_factor}: "
            f"reassign it with Kafka's own kafka-reassign-partitions, or set the replication factor to what it has"
        )
    return sentences


def _mend(topics: Topics, topic: Topic, found: FoundTopic) -> list[str]:
    done = []
    if found.partitions < topic.partitions:
        topics.add_partitions(topic.name, topic.partitions)
        done.append(f"grew {topic.name} from {found.partitions} to {topic.partitions} partitions")
    if wrong := wrong_configs(topic, found):
        topics.set_configs(topic.name, wrong)
        changes = ", ".join(f"{name}={value}" for name, value in wrong.items())
        done.append(f"set {changes} of {topic.name}")
    return done
