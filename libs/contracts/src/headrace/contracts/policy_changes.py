"""What of a new policy can't take effect while services run. Asked wherever a policy file is read again.

Invariant: what decides which topics there are, and who reads them, changes only where services start: they check their topics
there, and hold positions in them. All the rest of a policy is an opinion on requests that wait or come, and may change.
"""

from collections.abc import Iterator

from headrace.contracts.policy import Policy

_ADDED = "added: run `headrace topics apply`, then restart the services"
_REMOVED = (
    "removed: what waits there would never be read; put it back, or restart the services if nothing does"
)


def needs_a_restart(old: Policy, new: Policy) -> list[str]:
    """One sentence for each such change, with its place in the file."""
    changed = [
        f"topics.{name}: {getattr(old.topics, name)} became {getattr(new.topics, name)}: run `headrace topics apply`, "
        "then restart the services"
        for name in old.topics.__struct_fields__
        if getattr(old.topics, name) != getattr(new.topics, name)
    ]
    return [
        *_names("pools", set(old.pools), set(new.pools)),
        *_names("tiers", set(old.tiers), set(new.tiers)),
        *changed,
    ]


def _names(kind: str, old: set[str], new: set[str]) -> Iterator[str]:
    yield from (f"{kind}.{name}: {_ADDED}" for name in sorted(new - old))
    yield from (f"{kind}.{name}: {_REMOVED}" for name in sorted(old - new))
