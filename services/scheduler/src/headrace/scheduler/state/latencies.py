"""How long a backend took of late: first tokens by size of the prompt, whole answers, a token, the gap between attempts.

Used by state.backend_limits. Milliseconds, integers. Invariant: bounded; what is asked for and isn't known is None.
"""

from collections import defaultdict, deque
from dataclasses import dataclass, field

from headrace.scheduler.decisions.have_first_tokens_slowed import have_slowed, percentile, size_of

_LATEST, _KEPT = 64, 512
_LATELY, _TELLING = 16, 64
"""First tokens of a size that are compared with the usual; how many of them tell what is usual: the first may be a burst."""
_USUAL_OVER_MS = 600_000
_QUARTER_MS, _RATE_OVER, _SOONER, _MANY = 250, 40, 8, 256
"""Ends are counted by quarters of a second: over ten seconds; over the last two where so many ended in them."""


def _few() -> deque[int]:
    return deque(maxlen=_LATEST)


@dataclass(slots=True)
class _FirstTokens:
    """(ms since boot, ms it took), oldest first; `usual`: the 10th percentile and when it was found."""

    seen: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_KEPT))
    usual: tuple[int, int] | None = None

    def usual_ms(self, boot_ms: int) -> int | None:
        if self.usual is None or boot_ms - self.usual[1] >= 1_000:
            while self.seen and boot_ms - self.seen[0][0] > _USUAL_OVER_MS:
                self.seen.popleft()
            found = percentile([took for _, took in self.seen], 10)
            self.usual = None if found is None else (found, boot_ms)
        return None if self.usual is None else self.usual[0]


@dataclass(slots=True)
class Latencies:
    """Of one backend."""

    _whole: deque[int] = field(default_factory=_few)
    _token_us: deque[int] = field(default_factory=_few)
    _first: deque[int] = field(default_factory=_few)
    _by_size: defaultdict[int, _FirstTokens] = field(default_factory=lambda: defaultdict(_FirstTokens))
    _gaps: deque[int] = field(default_factory=lambda: deque(maxlen=2 * _LATEST))
    _ended: deque[list[int]] = field(default_factory=lambda: deque(maxlen=_RATE_OVER))
    """(quarter, ends in it), oldest first."""

    def took(
        self, *, whole_ms: int, first_ms: int | None, prompt_tokens: int, answer_tokens: int, boot_ms: int
    ) -> None:
        """An attempt succeeded. `first_ms`: until its first token; None: it wasn't streamed."""
        self._whole.append(whole_ms)
        if first_ms is not None:
            self._first.append(first_ms)
            self._by_size[size_of(prompt_tokens)].seen.append((boot_ms, first_ms))
        if answer_tokens > 1:
            self._token_us.append((whole_ms - (first_ms or 0)) * 1_000 // answer_tokens)

    def ended(self, boot_ms: int) -> None:
        """An attempt ended, however."""
        quarter = boot_ms // _QUARTER_MS
        if self._ended and self._ended[-1][0] == quarter:
            self._ended[-1][1] += 1
        else:
            self._ended.append([quarter, 1])

    def had_gap(self, gap_ms: int) -> None:
        """So long after an attempt's end the next one began."""
        self._gaps.append(gap_ms)

    @property
    def whole_ms(self) -> int | None:
        """Median of whole attempts."""
        return percentile(self._whole, 50)

    @property
    def first_ms(self) -> int | None:
        """Median until the first token."""
        return percentile(self._first, 50)

    @property
    def token_us(self) -> int | None:
        """Median time of a token, microseconds."""
        return percentile(self._token_us, 50)

    @property
    def gap_ms(self) -> int:
        """The 99th percentile of the gaps; 0 when none is known."""
        return percentile(self._gaps, 99) or 0

    def usual_first_ms(self, prompt_tokens: int, boot_ms: int) -> int | None:
        """What a prompt of about this size takes to its first token when nothing is in its way."""
        return self._by_size[size_of(prompt_tokens)].usual_ms(boot_ms)

    def is_late(self, prompt_tokens: int, waits_ms: int, boot_ms: int) -> bool:
        """Whether a first token has taken twice as long as usual: for prompts of about this size, and of late for any."""
        usual_ms = self.usual_first_ms(prompt_tokens, boot_ms)
        return usual_ms is not None and waits_ms > 2 * max(usual_ms, self.first_ms or 0)

    def have_slowed(self, boot_ms: int) -> bool:
        """Whether first tokens of some size have slowed."""
        return any(
            have_slowed(first.usual_ms(boot_ms), [took for _, took in list(first.seen)[-_LATELY:]])
            for first in self._by_size.values()
            if len(first.seen) >= _TELLING
        )

    def rate_milli(self, boot_ms: int) -> int:
        """Ends per 1,000 s, of late."""
        quarter, into_ms = divmod(boot_ms, _QUARTER_MS)
        lately = self._ends_since(quarter - _SOONER)
        if lately >= _MANY:
            return lately * 1_000_000 // (_SOONER * _QUARTER_MS + into_ms)
        return self._ends_since(quarter - _RATE_OVER) * 1_000_000 // (_RATE_OVER * _QUARTER_MS)

    def _ends_since(self, quarter: int) -> int:
        return sum(ends for at, ends in self._ended if at >= quarter)
