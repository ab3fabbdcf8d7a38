"""How a hosted API counts requests: so many a minute, and by ten seconds no more than their part. Used by core. Pure.

Invariant: what is refused isn't counted.
"""

from collections import deque

_LONGEST_S, _SHORTEST_S = 60.0, 10.0


class PerMinute:
    """The last minute's requests. Instants are seconds of any clock that doesn't go back."""

    def __init__(self, most: int) -> None:
        self._windows = ((_LONGEST_S, most), (_SHORTEST_S, max(1, most // 6)))
        self._at: deque[float] = deque()

    def waits_s(self, now_s: float) -> float:
        """Counts one more and returns 0; or, where that is too many, how long it would have to wait."""
        while self._at and now_s - self._at[0] >= _LONGEST_S:
            self._at.popleft()
        waits_s = max(
            (self._at[-most] + seconds - now_s for seconds, most in self._windows if len(self._at) >= most),
            default=0.0,
        )
        if waits_s > 0:
            return waits_s
        self._at.append(now_s)
        return 0.0

    def headers(self, now_s: float) -> dict[str, str]:
        """What is left, as OpenAI's API says it: of the window of which the least is, until all of that is free again."""
        left, most, seconds = min(
            (most - sum(now_s - at < seconds for at in self._at), most, seconds)
            for seconds, most in self._windows
        )
        reset_s = max(0.0, self._at[-1] + seconds - now_s) if self._at and left < most else 0.0
        said = {"limit": str(most), "remaining": str(max(0, left)), "reset": f"{reset_s:.3f}s"}
        return {f"x-ratelimit-{name}-requests": value for name, value in said.items()}
