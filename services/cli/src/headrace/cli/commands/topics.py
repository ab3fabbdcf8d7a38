"""`headrace topics`: the table of topics, whether the brokers have them so, and making them so."""

from typing import Annotated

import typer

from headrace.bus.topic_check import apply_topics, differences
from headrace.cli.brokers import administrator
from headrace.cli.option_groups import with_groups
from headrace.cli.options import AsJson, PolicyFile, Prefix, Where, policy_of, settings_of, topics_of
from headrace.cli.queue_filters import patience_of
from headrace.cli.terminal import say, say_json, show_table
from headrace.contracts.durations import ms, render
from headrace.contracts.topics import Topic


def commands() -> typer.Typer:
    """The group `topics`."""
    app = typer.Typer(help="The topics that headrace needs.", no_args_is_help=True)
    for command in (show, check, apply):
        app.command(command.__name__)(command)
    return app


def show(policy: PolicyFile = None, prefix: Prefix = None, as_json: AsJson = False) -> None:
    """Print every topic that must exist; asks no broker."""
    settings = settings_of(policy=policy, prefix=prefix)
    wanted = topics_of(policy_of(settings), settings.prefix)
    if as_json:
        say_json([_as_data(topic) for topic in wanted])
        return
    columns = ("topic", "partitions", "by", "kept", "written by", "read by", "holds")
    show_table(columns, map(_as_row, wanted), dispensable=("written by", "read by"))


@with_groups
def check(*, where: Where, as_json: AsJson = False) -> None:
    """Say how the brokers' topics differ from the table. Exits 1 when they do."""
    settings = where.settings()
    wanted = topics_of(policy_of(settings), settings.prefix)
    with administrator(settings) as topics:
        sentences = differences(wanted, topics.describe([topic.name for topic in wanted]))
    if as_json:
        say_json({"good": not sentences, "topics": len(wanted), "differences": sentences})
    else:
        for sentence in sentences:
            say(sentence)
        say(
            "`headrace topics apply` mends this."
            if sentences
            else f"all {len(wanted)} topics are as they must be"
        )
    if sentences:
        raise typer.Exit(1)


@with_groups
def apply(
    *,
    within: Annotated[
        str, typer.Option("--within", help="How long to wait for brokers that are starting, such as 30s.")
    ] = "30s",
    where: Where,
    as_json: AsJson = False,
) -> None:
    """Create what is missing and mend what differs; deletes nothing."""
    patience = patience_of(within)
    settings = where.settings()
    wanted = topics_of(policy_of(settings), settings.prefix)
    with administrator(settings) as topics:
        done = apply_topics(topics, wanted, patience)
    if as_json:
        say_json({"topics": len(wanted), "done": done})
        return
    for sentence in done:
        say(sentence)
    say(f"all {len(wanted)} topics are as they must be" + ("" if done else "; nothing was done"))


def _kept(topic: Topic) -> str:
    if topic.rule.compacted:
        return "newest of each key"
    return "until trimmed" if topic.rule.retention is None else render(topic.rule.retention)


def _services(of: frozenset[str]) -> str:
    return ", ".join(sorted(of))


def _as_row(topic: Topic) -> tuple[str, ...]:
    rule = topic.rule
    return (
        topic.name,
        str(topic.partitions),
        rule.partitioned_by,
        _kept(topic),
        _services(rule.written_by),
        _services(rule.read_by),
        rule.holds,
    )


def _as_data(topic: Topic) -> dict[str, object]:
    rule = topic.rule
    retention = None if rule.retention is None else ms(rule.retention)
    return {
        "name": topic.name,
        "partitions": topic.partitions,
        "partitioned_by": rule.partitioned_by,
        "replication_factor": topic.replication_factor,
        "retention_ms": retention,
        "compacted": rule.compacted,
        "max_message_bytes": rule.max_message_bytes,
        "written_by": sorted(rule.written_by),
        "read_by": sorted(rule.read_by),
        "holds": rule.holds,
        "configs": topic.configs(),
    }
