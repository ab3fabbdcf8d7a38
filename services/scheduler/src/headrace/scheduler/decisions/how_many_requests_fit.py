"""How many requests an engine may be given at a time: a limit that is cut when they queue there and grows when they don't.

Called by state.backend_limits at each look at a backend. Integers; instants in ms since boot, durations in ms. Invariant: at
most one cut in a median service time, none before the last one was obeyed; no growth without need, nor on old news.
"""

from dataclasses import dataclass, replace

NEVER = -(10**12)
FIRST = 16
"""The limit that a backend with gauges begins with, or what its operator allows if that is less. Any engine's batch takes so
many, so that slowness alone is no reason to go below it.
"""
MOST_WAITING, LITTLE_WAITING = 3, 1
STALE_MS, DRIFT_MS = 10_000, 20_000
"""A sample is stale when it is older; then the limit is held, and drifts when it is older still."""
LAG_MS = 6_000
"""How far engines' gauges trail (vllm#49538: 3 to 6 s): what they show so long after a change, they show with it."""


@dataclass(frozen=True, slots=True)
class RequestLimit:
    """What was learned. `good`: the last limit at which a sample showed that hardly anybody waits.

    `peak`: the most in flight since the last growth; `before`: the limit before that growth; `calm_ms`: when the last cut was
    obeyed; `cut_from`: the limit that was cut last, 0 for none. From then on each growth is seen in the gauges before the
    next; near there it is half as large, and the gauges have all their time to show it. `searching`: nothing was ever too
    much, so it doubles, each doubling seen in the gauges before the next; the first cut takes the last one back.
    """

    limit: int
    good: int
    before: int = 0
    peak: int = 0
    cut_ms: int = NEVER
    calm_ms: int = NEVER
    grown_ms: int = NEVER
    frozen: bool = False
    cut_from: int = 0
    searching: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a backend. `ceiling`: what its operator allows; `in_flight`: what it is believed to hold, the `ahead`
    that are sent while others end among it.

    `fresh`: the gauges are a new sample. `waiting`, `running`: by its gauges; None: they don't tell. `own_waiting`: attempts
    without a first token for longer than a prefill takes, which is known sooner. `sample_age_ms`: of the last sample; None:
    it has none. `refused`: a 429, a 503, a time-out. `slow`: first tokens have slowed where there are no gauges.
    """

    ceiling: int
    in_flight: int
    ttft_ms: int
    service_ms: int
    fresh: bool = False
    waiting: int | None = None
    running: int | None = None
    own_waiting: int = 0
    ahead: int = 0
    sample_age_ms: int | None = None
    refused: bool = False
    slow: bool = False

    @property
    def most(self) -> int:
        """So many may wait in it. Where hundreds end in a second, as many are sent ahead as wait there until its next step
        begins: taken for too many they had the limit cut again and again, with nine slots of ten idle.
        """
        return max(MOST_WAITING, self.ahead - MOST_WAITING)

    @property
    def little(self) -> int:
        """So few wait in it that it may be given more."""
        return max(LITTLE_WAITING, self.ahead // 2 - MOST_WAITING)


def first_limit(ceiling: int, held: int = 0, *, gauged: bool = True) -> RequestLimit:
    """Of a backend of which nothing is known but that it holds so many already. Without gauges nothing would tell how far a
    careful beginning may rise, so that its operator's word is taken until it shows that this is too much.
    """
    limit = max(1, min(max(FIRST, held), ceiling) if gauged else ceiling)
    return RequestLimit(limit, limit, searching=gauged)


def next_limit(now: RequestLimit, look: Look, boot_ms: int) -> RequestLimit:
    """The limit after this look."""
    now = _obeyed(replace(now, peak=max(now.peak, look.in_flight)), look, boot_ms)
    if must_cut(now, look, boot_ms):
        return _cut(now, look, boot_ms)
    if _is_stale(look):
        return _drifted(now, look, boot_ms)
    if look.fresh and max(look.waiting or 0, look.own_waiting) <= look.little:
        now = replace(now, good=max(now.good, min(now.limit, now.peak)))
    if may_grow(now, look, boot_ms):
        return _grown(now, look, boot_ms)
    return now


def must_cut(now: RequestLimit, look: Look, boot_ms: int) -> bool:
    """Whether too many wait in the engine, or it says itself that it has no room."""
    if now.frozen or boot_ms - now.cut_ms < look.service_ms:
        return False
    return _is_told(now, look, boot_ms) or (_is_slow(look) and now.limit > FIRST)


def may_grow(now: RequestLimit, look: Look, boot_ms: int) -> bool:
    """Only on fresh news, once in the time of a first token, when the limit was used and hardly anybody waits."""
    news = look.fresh or look.sample_age_ms is None
    if not news or now.frozen or boot_ms - now.grown_ms < look.ttft_ms:
        return False
    needed = 10 * now.peak >= 9 * now.limit
    waiting = max(look.waiting or 0, look.own_waiting)
    return needed and waiting <= look.little and not look.refused and _shows_the_growth(now, look, boot_ms)


def _is_told(now: RequestLimit, look: Look, boot_ms: int) -> bool:
    """Whether the backend itself says that it has too much."""
    queued = look.fresh and (look.waiting or 0) > look.most
    return look.refused or (queued and _shows_the_cut(now, look, boot_ms))


def _is_slow(look: Look) -> bool:
    """Whether first tokens are late, which may be an engine's way of sharing itself out among few."""
    return look.slow or look.own_waiting > MOST_WAITING


def _shows_the_cut(now: RequestLimit, look: Look, boot_ms: int) -> bool:
    """Whether the gauges are of after the last cut: they trail, and would have the same queue cut twice."""
    if boot_ms - now.calm_ms >= LAG_MS:
        return True
    return look.running is not None and 16 * (look.running + (look.waiting or 0)) <= 17 * now.limit


def _shows_the_growth(now: RequestLimit, look: Look, boot_ms: int) -> bool:
    """Whether the gauges show what the last growth let in."""
    free = not (now.cut_from or now.searching)
    if free or look.sample_age_ms is None or boot_ms - now.grown_ms >= LAG_MS:
        return True
    seen = look.running is not None and look.running + (look.waiting or 0) > now.before + look.ahead
    return seen and not _is_near(now)


def _obeyed(now: RequestLimit, look: Look, boot_ms: int) -> RequestLimit:
    if now.frozen and look.in_flight <= now.limit + look.ahead:
        return replace(now, frozen=False, calm_ms=boot_ms, peak=look.in_flight)
    return now


def _cut(now: RequestLimit, look: Look, boot_ms: int) -> RequestLimit:
    limit = max(1, min(now.limit, look.ceiling) * 4 // 5)
    if now.searching and now.before:
        limit = min(limit, now.before)
    if look.running is not None and (look.waiting or 0) > look.running:
        limit = min(limit, max(look.running, now.limit // 2))  # far too much: more wait in it than run
    if not _is_told(now, look, boot_ms):
        limit = max(limit, min(FIRST, look.ceiling))
    frozen = look.in_flight > limit + look.ahead
    calm_ms = now.calm_ms if frozen else boot_ms
    return replace(
        now, limit=limit, good=min(now.good, limit), before=0, peak=look.in_flight, cut_ms=boot_ms,
        calm_ms=calm_ms, frozen=frozen, cut_from=now.limit, searching=False,
    )  # fmt: skip


def _grown(now: RequestLimit, look: Look, boot_ms: int) -> RequestLimit:
    limit = min(look.ceiling, now.limit + _growth(now))
    if limit <= now.limit:
        return now
    return replace(now, limit=limit, before=now.limit, grown_ms=boot_ms, peak=look.in_flight)


def _is_stale(look: Look) -> bool:
    return look.sample_age_ms is not None and look.sample_age_ms > STALE_MS


def _drifted(now: RequestLimit, look: Look, boot_ms: int) -> RequestLimit:
    """Nobody knows what goes on there: back to what was seen to be good, by a step in the time of a growth."""
    too_soon = boot_ms - now.grown_ms < max(look.ttft_ms, 1_000)
    if look.sample_age_ms is None or look.sample_age_ms <= DRIFT_MS or too_soon or now.limit <= now.good:
        return now
    return replace(now, limit=max(now.good, now.limit - _step(now.limit)), grown_ms=boot_ms)


def _growth(now: RequestLimit) -> int:
    if now.searching:
        return now.limit
    return max(1, now.limit // 32) if _is_near(now) else _step(now.limit)


def _is_near(now: RequestLimit) -> bool:
    return now.cut_from > 0 and 8 * now.limit >= 7 * now.cut_from


def _step(limit: int) -> int:
    return max(1, limit // 16)
