"""By how much two backlogged tenants of equal rights may differ, from the charges that were seen. Used by owner.

The bound is that of token counters charged at dispatch and settled at completion: with K attempts that the pool may hold,
c the greatest charge over weight and D the greatest error of a charge, B = c + K*D/w and the gap is at most 2*(B + K*c).
"""

from headrace.contracts.policy import Policy


class Promise:
    """Charges and their errors so far, in micro service units."""

    def __init__(self, policy: Policy, slots: int) -> None:
        self._weights = {name: tenant.weight for name, tenant in policy.tenants.items()}
        self._slots = slots
        self._charge = self._error = 0

    def charged(self, tenant: str, charge: int) -> None:
        """An attempt was charged."""
        self._charge = max(self._charge, charge // self._weights.get(tenant, 1))

    def settled(self, tenant: str, charge: int, spent: int) -> None:
        """An attempt whose charge stood at `charge` has really spent this."""
        self.charged(tenant, charge)
        self._error = max(self._error, abs(spent - charge))

    @property
    def gap(self) -> int:
        """The bound; w is the least weight that a tenant can have, 1."""
        lag = self._charge + self._slots * self._error
        return 2 * (lag + self._slots * self._charge)
