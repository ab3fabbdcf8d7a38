"""The counters of one tenant's flows in one tier: of its fairness keys, and of what has none. Kept by state.accounts.

Made when the first request with a key comes, and forgotten with the tenant's own counter: who sends no keys has none of this.
Invariant: at most MOST_OWN keys have a number, and a number is given away again only when nothing of its flow waits or is in
flight and its counter would be lifted anyway. Nothing here is in checkpoints (docs/scheduling.md says what that costs).
"""

from collections.abc import Container
from fractions import Fraction

from headrace.scheduler.decisions.pick_next import lifted, may_forget
from headrace.scheduler.decisions.which_flow import FIRST_OWN, NO_KEY, which_flow
from headrace.scheduler.state.account import Account

ALIKE = Fraction(1)
"""The share of each flow of a tenant."""


class Flows:
    """`largest_tag`: the greatest counter that was ever served."""

    def __init__(self) -> None:
        self.largest_tag = 0
        self._accounts: dict[int, Account] = {}
        self._numbers: dict[str, int] = {}
        self._keys: dict[int, str] = {}
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._accounts)

    def flow_of(self, key: str | None, waiting: Container[int]) -> int:
        """The flow of a request with this key. `waiting`: flows of which anything waits."""
        flow = self.flow_now(key, waiting)
        if key is not None and flow >= FIRST_OWN and key not in self._numbers:
            if self._free:
                self._free.pop()
            self._numbers[key], self._keys[flow] = flow, key
            self.of(flow)  # else nobody would forget it
        return flow

    def flow_now(self, key: str | None, waiting: Container[int]) -> int:
        """The same to look at: not kept where it would be a new one."""
        flow = which_flow(key, self._numbers, waiting)
        if flow is not None:
            return flow
        return self._free[-1] if self._free else FIRST_OWN + len(self._numbers)

    def counter_when_waiting(self, flow: int, least: int | None) -> int:
        """A flow's counter, lifted as it would be if it began to wait now, beside others the least of which is this."""
        known = self._accounts.get(flow)
        counter = 0 if known is None else known.value
        return lifted(counter, [] if least is None else [least], self.largest_tag)

    def of(self, flow: int) -> Account:
        """A flow's counter, made on first use."""
        account = self._accounts.get(flow)
        if account is None:
            account = self._accounts[flow] = Account(ALIKE)
        return account

    def dispatch(self, flow: int) -> None:
        """It is served now, and will be charged."""
        self.largest_tag = max(self.largest_tag, self.of(flow).value)

    def lift(self, flow: int, least: int | None) -> None:
        """It becomes backlogged. `least`: the least counter of the tenant's flows that wait already."""
        self.of(flow).lift_to(self.counter_when_waiting(flow, least))

    def forget_idle(self, waiting: Container[int]) -> None:
        """Drop the counters that the lift would replace anyway."""
        for flow, account in list(self._accounts.items()):
            if flow not in waiting and may_forget(account.value, self.largest_tag, account.in_flight):
                del self._accounts[flow]
                key = self._keys.pop(flow, None)
                if key is not None:
                    del self._numbers[key]
                    self._free.append(flow)

    @property
    def needed(self) -> bool:
        """Whether any flow is known but the one without a key, or that has anything in flight."""
        return any(flow != NO_KEY or account.in_flight for flow, account in self._accounts.items())
