"""Lets another policy hold for an owned pool, between two steps. Called by PoolCore.

Invariant: afterwards everything is as it would be for a new owner with this policy, but for what was learnt, which stays: so
a change in place and a restart come to the same. What waits keeps its order and its times.
"""

from dataclasses import replace

from headrace.contracts.policy import Policy
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.decisions.pick_next import tier_shares


def adopt(state: PoolState, policy: Policy) -> None:
    """`policy` differs in nothing that needs a restart (contracts.policy_changes). All else that is set stays: so do the ids
    of the topics that were found at the claim, by which checkpoints tell whether a log is still the one that was read.
    """
    state.setting = setting = replace(state.setting, policy=policy)
    weights = {name: tenant.weight for name, tenant in setting.policy.tenants.items()}
    charges = ((held.tier, held.tenant, held.charge) for held in state.held.all())
    state.accounts.adopt(tier_shares(setting.policy.tiers), weights, charges)
    state.queue.weights_changed()
    state.lengths.begin_with(setting.pool_policy.default_max_tokens)
    state.ceilings.adopt(*setting.ceilings, boot_ms=state.now.boot_ms)
