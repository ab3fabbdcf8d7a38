"""The tables that everybody relies on: lifecycle, partitions, failures, topics."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.failures import FAILURES, FailureKind, Fault, rule_of
from headrace.contracts.lifecycle import MOVES, Status, is_terminal, may_move, may_reach
from headrace.contracts.partitions import BUCKETS, bucket_of, partition_of
from headrace.contracts.topics import (
    TOPICS,
    PartitionedBy,
    Service,
    TopicCounts,
    TopicKind,
    TopicNames,
    required_topics,
)

_K = FailureKind
ENDS = {Status.SUCCEEDED, Status.FAILED, Status.EXPIRED, Status.CANCELLED, Status.DEAD_LETTERED}


def test_the_lifecycle_has_the_moves_of_the_design_and_no_others() -> None:
    assert MOVES[Status.QUEUED] == {Status.DISPATCHED, *ENDS}
    assert MOVES[Status.DISPATCHED] == {Status.RUNNING, Status.QUEUED, *ENDS}
    assert MOVES[Status.RUNNING] == {Status.QUEUED, *ENDS}
    assert {status for status in Status if is_terminal(status)} == ENDS
    assert set(MOVES) == set(Status)


@given(st.lists(st.sampled_from(list(Status)), min_size=2, max_size=8))
def test_whoever_misses_states_still_sees_a_legal_history(walk: list[Status]) -> None:
    legal = all(may_move(before, after) for before, after in pairwise(walk))
    seen = [walk[0], *walk[1:-1:2], walk[-1]]
    if legal:
        assert all(may_reach(before, after) for before, after in pairwise(seen))


def test_nothing_comes_after_an_end() -> None:
    assert not any(may_move(end, after) for end in ENDS for after in Status)
    assert [after for after in Status if may_reach(Status.FAILED, after)] == [Status.FAILED]


@pytest.mark.parametrize(
    ("tenant", "bucket", "of_eight"),
    [("", 0, 0), ("123456789", 0x926, 6), ("acme", 2622, 6), ("atlas", 1551, 7), ("ünïcode", 1194, 2)],
)
def test_version_1_of_the_partitions_never_changes(tenant: str, bucket: int, of_eight: int) -> None:
    assert (bucket_of(tenant), partition_of(tenant, 8)) == (bucket, of_eight)


@given(tenant=st.text(st.characters(codec="utf-8")), partitions=st.integers(1, BUCKETS))
def test_a_partition_is_one_of_those_there_are(tenant: str, partitions: int) -> None:
    assert 0 <= partition_of(tenant, partitions) < partitions


@pytest.mark.parametrize("partitions", [0, -1, BUCKETS + 1])
def test_an_impossible_number_of_partitions_is_refused(partitions: int) -> None:
    with pytest.raises(ValueError, match=r"1\.\.4096"):
        partition_of("acme", partitions)


def test_every_failure_has_a_rule_that_makes_sense() -> None:
    assert set(FAILURES) == set(FailureKind)
    for kind, rule in FAILURES.items():
        assert rule.sentence.endswith("."), kind
        assert 400 <= rule.http_status <= 599, kind
        assert not (rule.retryable and rule.fault is Fault.CALLER), kind
        assert not rule.suspect or rule.uses_attempt, kind
        assert (rule.http_status < 500) or rule.fault is not Fault.CALLER, kind


@pytest.mark.parametrize(
    "kind", [FailureKind.BACKEND_OVERLOADED, FailureKind.BACKEND_UNAVAILABLE, FailureKind.WORKER_DRAINED]
)
def test_an_outage_or_a_drain_uses_up_no_attempt(kind: FailureKind) -> None:
    assert (rule_of(kind).retryable, rule_of(kind).uses_attempt, rule_of(kind).suspect) == (
        True,
        False,
        False,
    )


def test_only_a_death_makes_suspects() -> None:
    suspects = {kind for kind, rule in FAILURES.items() if rule.suspect}
    assert suspects == {FailureKind.ENGINE_DIED, FailureKind.WORKER_DIED}


def test_the_truth_never_expires_and_a_topic_is_compacted_or_expires_not_both() -> None:
    for kind in (TopicKind.REQUESTS, TopicKind.RESULTS, TopicKind.ATTEMPTS, TopicKind.CONTROL):
        assert TOPICS[kind].retention is None
        assert not TOPICS[kind].compacted
    assert not any(rule.compacted and rule.retention is not None for rule in TOPICS.values())
    assert set(TOPICS) == set(TopicKind)
    assert TOPICS[TopicKind.DLQ].max_message_bytes > max(
        rule.max_message_bytes for kind, rule in TOPICS.items() if kind is not TopicKind.DLQ
    )
    assert Service.INGEST not in TOPICS[TopicKind.RESULTS].read_by


def test_the_required_topics_of_two_pools_and_two_tiers() -> None:
    counts = TopicCounts(tenant_partitions=3, lanes=2, gateways=5)
    topics = {
        topic.name: topic
        for topic in required_topics(TopicNames("x."), counts, pools=["a", "b"], tiers=["s", "t"])
    }
    assert {name for name in topics if name.startswith("x.requests.")} == {
        "x.requests.a.s", "x.requests.a.t", "x.requests.b.s", "x.requests.b.t",
    }  # fmt: skip
    assert [topics[name].partitions for name in ("x.results", "x.work.a", "x.replies", "x.state.b")] == [
        3,
        2,
        5,
        1,
    ]
    assert topics["x.results"].configs()["retention.ms"] == "-1"
    assert topics["x.state.a"].configs()["cleanup.policy"] == "compact"
    assert {rule.partitioned_by for rule in TOPICS.values()} == set(PartitionedBy)


def test_what_is_read_from_its_beginning_or_kept_for_an_hour_is_written_in_short_segments() -> None:
    topics = required_topics(TopicNames("x."), TopicCounts(), pools=["a"], tiers=["s"])
    segments = {topic.rule.kind: int(topic.configs()["segment.ms"]) for topic in topics}
    short = {kind for kind, ms in segments.items() if ms <= 600_000}
    assert short == {
        TopicKind.STATE, TopicKind.WORKERS, TopicKind.WORK, TopicKind.REPLIES, TopicKind.QUEUE_STATE,
        TopicKind.TENANTS,
    }  # fmt: skip


def test_a_name_without_its_pool_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a pool"):
        TopicNames().of(TopicKind.WORK)
    assert TopicNames().of(TopicKind.REQUESTS, pool="main", tier="batch") == "headrace.requests.main.batch"
