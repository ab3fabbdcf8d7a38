"""A tenant's program on the native routes."""

from typing import Any

import msgspec

from headrace.contracts.requests import RequestRecord
from tests.support.ingest import CHAT, Replica


async def submit(replica: Replica, **headrace: Any) -> tuple[dict[str, Any], RequestRecord]:
    async with replica.session.post(
        "/v1/requests", json={**CHAT, "headrace": headrace}, headers=replica.as_tenant()
    ) as answer:
        document = await answer.json()
        assert answer.status == 202, document
        assert answer.headers["location"] == document["links"]["self"]
        assert "retry-after" in answer.headers
    records = {record.id: record for record, _ in await replica.other.all_requests()}
    return document, records[document["id"]]


async def get(
    replica: Replica, path: str, tenant: str = "atlas", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    async with replica.session.get(path, headers={**replica.as_tenant(tenant), **headers}) as answer:
        return (
            answer.status,
            {name.lower(): value for name, value in answer.headers.items()},
            await answer.read(),
        )


def events_in(raw: bytes) -> list[tuple[str, str | None, Any]]:
    """(event, id, data) of each server-sent event."""
    found = []
    for block in raw.decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines:
            found.append((lines["event"], lines.get("id"), msgspec.json.decode(lines["data"])))
    return found
