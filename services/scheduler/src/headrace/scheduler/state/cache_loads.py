"""What one backend's KV cache is asked for by the attempts that it holds. Used by state.backend_limits.

Invariant: the peak is that of a forecast made anew of the same loads; sums are kept as loads come and go, and the forecast
itself is made only when it is asked for. Tokens.
"""

from headrace.scheduler.decisions.how_many_tokens_fit import Forecast, Load

_NOTHING = Load(0, 0)


class CacheLoads:
    """Loads by request id."""

    def __init__(self) -> None:
        self._loads: dict[str, Load] = {}
        self._so_far = self._left = 0
        self._forecast: Forecast | None = None

    def __len__(self) -> int:
        return len(self._loads)

    def put(self, request_id: str, load: Load) -> None:
        """It is held, and so far on."""
        before = self._loads.get(request_id)
        if before == load:
            return
        if before is not None:
            self._forecast = None
        elif self._forecast is not None:
            self._forecast.add(load)
        self._loads[request_id] = load
        self._moved(before or _NOTHING, load)

    def drop(self, request_id: str) -> None:
        """It is held no longer, if it was."""
        before = self._loads.pop(request_id, None)
        if before is not None:
            self._forecast = None
            self._moved(before, _NOTHING)

    def so_far_of(self, request_id: str) -> int:
        """What of it is in the cache now; 0: it isn't held."""
        return self._loads.get(request_id, _NOTHING).so_far

    @property
    def so_far(self) -> int:
        """What is in the cache now."""
        return self._so_far

    @property
    def peak(self) -> int:
        """What it will come to."""
        return self._made().peak

    def peak_with(self, load: Load) -> int:
        """The same with one more."""
        return self._made().peak_with(load)

    def most_with(self, load: Load) -> int:
        """At least the peak with one more, at once: as if none gave anything back before all have ended."""
        return self._so_far + self._left + load.so_far + load.left

    def _moved(self, before: Load, after: Load) -> None:
        self._so_far += after.so_far - before.so_far
        self._left += after.left - before.left

    def _made(self) -> Forecast:
        if self._forecast is None:
            self._forecast = Forecast(self._loads.values())
        return self._forecast
