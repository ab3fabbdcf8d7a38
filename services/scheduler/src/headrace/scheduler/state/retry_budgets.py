"""Each tenant's attempts and retries of the last minute. Used by the core.

Invariant: what is older than the window counts no more; a tenant that rests takes no memory. Not checkpointed: a new owner
begins with empty windows, so that its first minute allows `retry_minimum` anew.
"""

from collections import deque
from dataclasses import dataclass, field

from headrace.scheduler.decisions.may_retry import WINDOW

_SECONDS = WINDOW.seconds


@dataclass(slots=True)
class _Window:
    """Counts by second (since boot), oldest first: [second, attempts, retries]; and their sums."""

    seconds: deque[list[int]] = field(default_factory=deque)
    attempts: int = 0
    retries: int = 0

    def forget_before(self, second: int) -> None:
        while self.seconds and self.seconds[0][0] <= second:
            _, attempts, retries = self.seconds.popleft()
            self.attempts -= attempts
            self.retries -= retries

    def add(self, second: int, attempts: int, retries: int) -> None:
        if not self.seconds or self.seconds[-1][0] != second:
            self.seconds.append([second, 0, 0])
        self.seconds[-1][1] += attempts
        self.seconds[-1][2] += retries
        self.attempts += attempts
        self.retries += retries


class RetryBudgets:
    """The windows of all tenants. Instants are ms since boot."""

    def __init__(self) -> None:
        self._windows: dict[str, _Window] = {}
        self._swept = 0

    def attempted(self, tenant: str, boot_ms: int) -> None:
        """One of its requests was released."""
        self._window(tenant, boot_ms).add(boot_ms // 1000, 1, 0)

    def retried(self, tenant: str, boot_ms: int) -> None:
        """One of its requests is to be tried again."""
        self._window(tenant, boot_ms).add(boot_ms // 1000, 0, 1)

    def of(self, tenant: str, boot_ms: int) -> tuple[int, int]:
        """Its attempts and retries in the last minute."""
        window = self._window(tenant, boot_ms)
        return window.attempts, window.retries

    def _window(self, tenant: str, boot_ms: int) -> _Window:
        second = boot_ms // 1000
        if second - self._swept >= _SECONDS:
            self._sweep(second)
        window = self._windows.get(tenant)
        if window is None:
            window = self._windows[tenant] = _Window()
        window.forget_before(second - _SECONDS)
        return window

    def _sweep(self, second: int) -> None:
        """Forget who has done nothing for a minute."""
        self._swept = second
        for tenant, window in list(self._windows.items()):
            window.forget_before(second - _SECONDS)
            if not window.seconds:
                del self._windows[tenant]
