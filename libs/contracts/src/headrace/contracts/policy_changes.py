"""What a new policy does to services that run: what needs a restart, what needs topics first, what goes on although it went.

Asked wherever a policy file is read again. Invariant: what has been accepted is served, whatever a newer file says: a pool
or a tier that was taken out is closed at the door, and goes on in the services that hold its work for as long as they run.
"""

from msgspec.structs import replace

from headrace.contracts.policy import Policy


def needs_a_restart(old: Policy, new: Policy) -> list[str]:
    """One sentence for each such change, with its place in the file: partitions are counted once, where services start."""
    return [
        f"topics.{name}: {getattr(old.topics, name)} became {getattr(new.topics, name)}: run `headrace topics apply`, "
        "then restart the services"
        for name in old.topics.__struct_fields__
        if getattr(old.topics, name) != getattr(new.topics, name)
    ]


def comes(old: Policy, new: Policy) -> list[str]:
    """The pools and tiers that are added, by their places in the file: their topics must be there first."""
    pools, tiers = sorted(set(new.pools) - set(old.pools)), sorted(set(new.tiers) - set(old.tiers))
    return [*(f"pools.{name}" for name in pools), *(f"tiers.{name}" for name in tiers)]


def with_what_went(old: Policy, new: Policy) -> Policy:
    """What services go by that hold work: `new`, with what it took out of `old`. Such a pool passes nothing on, and such a
    tier has its weight, but no floor and no slots of its own: those that there are add up without it.
    """
    pools = {name: replace(pool, fallbacks=()) for name, pool in old.pools.items() if name not in new.pools}
    tiers = {
        name: replace(tier, floor_percent=0, headroom_percent=0)
        for name, tier in old.tiers.items()
        if name not in new.tiers
    }
    return replace(new, pools=new.pools | pools, tiers=new.tiers | tiers) if pools or tiers else new
