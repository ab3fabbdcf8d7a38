"""A backend as a simulation sees it: slots, a prefill rate, a constant time for each token, optionally KV memory and a cache.

Turned by the world. Requests beyond its slots wait inside, first come, first served, as in an engine. Invariant: where KV
memory is bounded what runs never holds more than it; the newest is put back, and its prompt and text are computed again.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headrace.contracts.prefixes import BLOCK_TOKENS
from headrace.scheduler.simulate.jobs import Job


@dataclass(frozen=True, slots=True)
class BackendModel:
    """What an operator knows of a backend. `prefill_per_s`: prompt tokens a second for one request; `token_us`: microseconds
    for each output token; `kv_tokens` None: memory never is what is short. `cache_blocks`: how many blocks of prompts its
    cache keeps, the last used; None: as the trace says. `prompts_in_turn`: it computes one prompt after the other.
    """

    slots: int
    prefill_per_s: int = 8_000
    token_us: int = 25_000
    kv_tokens: int | None = None
    cache_blocks: int | None = None
    prompts_in_turn: bool = False

    @property
    def at_a_time(self) -> int:
        """How many requests it does what is short for at a time: it has slots, or computes a prompt."""
        return 1 if self.prompts_in_turn else self.slots

    def work_ms(self, job: Job) -> int:
        """How much of that a request takes."""
        return self.prefill_ms(job.input_tokens) if self.prompts_in_turn else self.service_ms(job)

    def prefill_ms(self, tokens: int) -> int:
        """How long so many prompt tokens take that no cache had."""
        return -(-tokens * 1_000 // self.prefill_per_s)

    def decode_ms(self, tokens: int) -> int:
        """How long so many output tokens take."""
        return -(-tokens * self.token_us // 1_000)

    def service_ms(self, job: Job) -> int:
        """How long the request has a slot when nothing disturbs it."""
        return self.prefill_ms(job.input_tokens - job.cached_tokens) + self.decode_ms(job.output_tokens)


@dataclass(slots=True, eq=False)
class Running:
    """A request in a slot. `since_ms`: when it got it; `first_ms`: when tokens begin; `before`: those it had already."""

    job: Job
    since_ms: int
    first_ms: int
    before: int
    end_ms: int


class BlockCache:
    """Blocks of prompts; the one used longest ago goes first, of a prompt the last."""

    def __init__(self, size: int) -> None:
        self._size, self._blocks = size, dict[int, None]()

    def use(self, blocks: Sequence[int]) -> int:
        """How many of them, from the first on, were there; now all are, as far as there is room."""
        found = next((n for n, block in enumerate(blocks) if block not in self._blocks), len(blocks))
        for block in reversed(blocks):
            self._blocks.pop(block, None)
            self._blocks[block] = None
        while len(self._blocks) > self._size:
            del self._blocks[next(iter(self._blocks))]
        return found


class Backend:
    """One backend's state. `busy_ms` counts slot-milliseconds of what has left its slot."""

    def __init__(self, model: BackendModel) -> None:
        self.model = model
        self.running: dict[Job, Running] = {}
        self.waiting: deque[tuple[Job, int]] = deque()
        """With the tokens that each had when it was put back."""
        self.preemptions = 0
        self._cache = BlockCache(model.cache_blocks or 0)
        self._computed_ms = 0
        """When all prompts that it has begun with will be computed."""

    def start(self, job: Job, now_ms: int) -> None:
        """It has been sent here; its prompt, and what is said already, must be computed."""
        self.waiting.append((job, job.said))
        self._admit(now_ms)

    def stop(self, job: Job, now_ms: int) -> None:
        """It has been cancelled."""
        if job in self.running:
            del self.running[job]
        else:
            self.waiting = deque(entry for entry in self.waiting if entry[0] is not job)
        self._admit(now_ms)

    def turn(self, now_ms: int) -> list[Running]:
        """What has finished by now; then who waits inside gets what is free."""
        done = [running for running in self.running.values() if running.end_ms <= now_ms]
        for running in done:
            del self.running[running.job]
        self._put_back(now_ms)
        self._admit(now_ms)
        return done

    def next_ms(self, now_ms: int) -> int | None:
        """When it must be turned next."""
        ends = min((running.end_ms for running in self.running.values()), default=None)
        full = self._full_ms(now_ms)
        return min((at for at in (ends, full) if at is not None), default=None)

    def tokens_of(self, job: Job, now_ms: int) -> int:
        """Output tokens so far."""
        running = self.running.get(job)
        if running is None:
            return next((tokens for waiting, tokens in self.waiting if waiting is job), 0)
        since_first = max(0, now_ms - running.first_ms) * 1_000 // self.model.token_us
        return min(job.output_tokens, running.before + since_first)

    def _admit(self, now_ms: int) -> None:
        while self.waiting and len(self.running) < self.model.slots:
            job, tokens = self.waiting[0]
            room = self._room(now_ms)
            if room is not None and job.input_tokens + tokens > room and self.running:
                return
            self.waiting.popleft()
            job.started_ms = now_ms if job.started_ms is None else job.started_ms
            job.kept_ms = now_ms if job.kept_ms is None else job.kept_ms
            if self.model.cache_blocks is not None:
                job.cached_tokens = min(self._cache.use(job.blocks) * BLOCK_TOKENS, job.input_tokens)
            prompt = job.input_tokens + tokens - (job.cached_tokens if tokens == 0 else 0)
            begin_ms = max(now_ms, self._computed_ms) if self.model.prompts_in_turn else now_ms
            first_ms = self._computed_ms = begin_ms + self.model.prefill_ms(prompt)
            end_ms = first_ms + self.model.decode_ms(job.output_tokens - tokens)
            self.running[job] = Running(job, now_ms, first_ms, tokens, end_ms)

    def _room(self, now_ms: int) -> int | None:
        """Tokens of KV memory that nobody holds; None: unbounded."""
        if self.model.kv_tokens is None:
            return None
        return self.model.kv_tokens - sum(self._held(now_ms))

    def _held(self, now_ms: int) -> Iterator[int]:
        return (job.input_tokens + self.tokens_of(job, now_ms) for job in self.running)

    def _put_back(self, now_ms: int) -> None:
        """The newest gives way; the last one stays even where it doesn't fit, or nothing would ever go on."""
        room = self._room(now_ms)
        while room is not None and room < 0 and len(self.running) > 1:
            newest = next(reversed(self.running))
            tokens = self.tokens_of(newest, now_ms)
            del self.running[newest]
            self.waiting.appendleft((newest, tokens))
            self.preemptions += 1
            room = self._room(now_ms)

    def _full_ms(self, now_ms: int) -> int | None:
        """When the memory will have run out, at the earliest, if nothing ends before."""
        room = self._room(now_ms)
        if room is None or len(self.running) < 2:
            return None
        return now_ms + 1 + room * self.model.token_us // (1_000 * len(self.running))
