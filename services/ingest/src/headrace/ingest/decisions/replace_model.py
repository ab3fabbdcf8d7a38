"""How a body reaches the backend when not all of it is for the backend. Called by the service once per request.

Invariant: every byte that isn't the replaced value or the removed member (with one comma) stays as the caller wrote it.
"""

import msgspec

from headrace.ingest.decisions.json_members import members_of


def replace_model(body: bytes, model: str) -> bytes:
    """The body with the value of each top-level `model` replaced."""
    value = msgspec.json.encode(model)
    parts, done = [], 0
    for member in members_of(body):
        if member.name == "model":
            parts += [body[done : member.value_start], value]
            done = member.end
    return b"".join([*parts, body[done:]])


def without_member(body: bytes, name: str) -> bytes:
    """The body without its top-level members of this name."""
    members = list(members_of(body))
    kept = [member for member in members if member.name != name]
    if len(kept) == len(members):
        return body
    if not kept:
        return body[: members[0].start] + body[members[-1].end :]
    # what stands between two kept neighbours, or before the first and after the last, is kept; the rest goes
    parts = [body[: members[0].start]]
    for index, member in enumerate(members):
        if member.name == name:
            continue
        if len(parts) > 1:
            parts.append(body[members[index - 1].end : member.start])
        parts.append(body[member.start : member.end])
    return b"".join([*parts, body[members[-1].end :]])
