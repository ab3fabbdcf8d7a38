"""What a submission on the native route leaves in the log: its options, its hints, and nothing of them in the body."""

import msgspec
import pytest

from headrace.contracts.prefixes import hashes_of
from tests.integration.ingest.native_caller import submit
from tests.support.ingest import CHAT, Replica


async def test_a_submission_is_kept_with_its_options_and_without_them_in_the_body(replica: Replica) -> None:
    options = {
        "tier": "batch",
        "priority": 3,
        "deadline": "1h",
        "queue_timeout": "5m",
        "metadata": {"job": "4"},
    }
    document, record = await submit(replica, **options, fairness_key="user-1")
    assert (document["status"], document["tier"], document["model"]) == ("queued", "batch", "small")
    assert (record.tier, record.priority, record.metadata) == ("batch", 3, {"job": "4"})
    assert (record.fairness_key, record.waits) == ("user-1", False)
    assert record.start_by_ms == record.accepted_ms + 300_000
    assert record.finish_by_ms == record.accepted_ms + 3_600_000
    [(_, received)] = await replica.other.all_requests()
    assert msgspec.json.decode(received.value or b"") == CHAT


@pytest.mark.parametrize("header", ["X-Headrace-Fairness-Key", "X-LLM-D-Inference-Fairness-Id"])
async def test_a_header_names_the_fairness_key(replica: Replica, header: str) -> None:
    asked = {**CHAT, "user": "body", "headrace": {"fairness_key": "option"}}
    async with replica.session.post(
        "/v1/requests", json=asked, headers={**replica.as_tenant(), header: "header"}
    ) as answer:
        assert answer.status == 202
    [(record, _)] = await replica.other.all_requests()
    assert record.fairness_key == "header"


@pytest.mark.parametrize("header", ["X-Headrace-Session", "X-Session-ID"])
async def test_who_names_a_session_is_sent_where_it_ran_and_the_record_has_no_more_than_its_hash(
    replica: Replica, header: str
) -> None:
    for asked, headers in (
        ({**CHAT, "headrace": {"session": "talk-7"}}, {}),
        ({**CHAT, "prompt_cache_key": "talk-7"}, {}),
        ({**CHAT, "prompt_cache_key": "body", "headrace": {"session": "option"}}, {header: "talk-7"}),
    ):
        async with replica.session.post(
            "/v1/requests", json=asked, headers={**replica.as_tenant(), **headers}
        ) as answer:
            assert answer.status == 202
    sessions = {record.session for record, _ in await replica.other.all_requests()}
    assert len(sessions) == 1
    assert "talk-7" not in str(sessions)


async def test_a_long_prompt_tells_what_it_begins_with_and_a_short_one_nothing(replica: Replica) -> None:
    _, short = await submit(replica)
    assert short.prefix == ""
    asked = {**CHAT, "messages": [{"role": "user", "content": "long " * 2_000}]}
    async with replica.session.post("/v1/requests", json=asked, headers=replica.as_tenant()) as answer:
        assert answer.status == 202
    records = [record for record, _ in await replica.other.all_requests()]
    assert [len(hashes_of(record.prefix)) for record in records] == [0, 4]


async def test_a_caller_keeps_its_request_from_other_pools(replica: Replica) -> None:
    _, wherever = await submit(replica)
    _, here = await submit(replica, fallback=False)
    async with replica.session.post(
        "/v1/requests", json=CHAT, headers={**replica.as_tenant(), "X-Headrace-Fallback": "false"}
    ) as answer:
        assert answer.status == 202
    [header] = [r for r, _ in await replica.other.all_requests() if r.id not in (wherever.id, here.id)]
    assert (wherever.stays, here.stays, header.stays) == (False, True, True)
