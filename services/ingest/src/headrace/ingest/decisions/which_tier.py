"""In which tier a request waits. Called by the service once per request.

The strongest word counts: the header X-Priority, then `headrace.tier`, then OpenAI's `service_tier`, then the tenant's own.
Invariant: the answer is a tier of the policy that this tenant may use.
"""

from headrace.contracts.policy import Policy, TenantPolicy
from headrace.ingest.refusal import Refusal

SERVICE_TIERS = {
    "auto": None,
    "default": None,
    "scale": None,
    "priority": "interactive",
    "fast": "interactive",
    "flex": "batch",
    "batch": "batch",
}
"""OpenAI's words for ours; None is the tenant's default."""


def which_tier(
    policy: Policy, tenant: TenantPolicy, *, header: str | None, field: str | None, service_tier: str | None
) -> str:
    """The tier's name. Raises Refusal: 422 for an unknown one, 403 for one that isn't the tenant's."""
    for asked, pointer in ((header, None), (field, "/headrace/tier")):
        if asked is not None:
            return _checked(policy, tenant, asked, pointer)
    if service_tier is None:
        return tenant.default_tier
    if service_tier not in SERVICE_TIERS:
        return _checked(policy, tenant, service_tier, "/service_tier")
    wanted = SERVICE_TIERS[service_tier]
    if wanted is None or wanted not in policy.tiers:
        return tenant.default_tier
    return _checked(policy, tenant, wanted, "/service_tier")


def allowed_tiers(policy: Policy, tenant: TenantPolicy) -> tuple[str, ...]:
    """The tiers that a tenant may use."""
    return tuple(policy.tiers) if tenant.tiers is None else tenant.tiers


def _checked(policy: Policy, tenant: TenantPolicy, tier: str, pointer: str | None) -> str:
    allowed = allowed_tiers(policy, tenant)
    names = ", ".join(sorted(allowed))
    if tier not in policy.tiers:
        said = "X-Priority" if pointer is None else pointer.rsplit("/", 1)[-1]
        raise Refusal(
            422, "unknown_tier", f"There is no tier {tier[:64]!r}: {said} takes {names}.", pointer=pointer
        )
    if tier not in allowed:
        raise Refusal(
            403, "tier_not_allowed", f"Your key may not use the tier {tier!r}, only {names}.", pointer=pointer
        )
    return tier
