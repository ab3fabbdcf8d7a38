"""The engine's scheduler: one step at a time, as vLLM's does it. Pure: no clock, no I/O; the instant is an argument.

    stepper.add(sequence, now_us); step = stepper.step(now_us); now_us += step.took_us; …

Driven by live in real time, and by tests and simulations in virtual time. Each step: a token for every decoding sequence
first, the rest of the token budget to prompts in chunks, then to those who wait, in order. Without a free block the newest
(or the least urgent) sequence is preempted: it gives up its blocks and is computed again later. All instants and durations
are whole microseconds. Invariant: `decoding` and `prefilling` are in the order in which they'd be preempted last.
"""

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter

from headrace.devkit.engine.blocks import BlockPool
from headrace.devkit.engine.latency import NO_TIME
from headrace.devkit.engine.profiles import BLOCK, Profile
from headrace.devkit.engine.sequences import NEVER, Sequence, State
from headrace.devkit.engine.waiting import Waiting

ORDER = attrgetter("order")


@dataclass(slots=True)
class Step:
    """What one step did. `emitted`: each got one token; `finished`: that was their last.

    Both are so at the end of the step, `took_us` after its beginning; the next step frees the place of the finished.
    `tokens` computed in all; 0: nothing could be done, until `wake_us` (None: until something is added or aborted).
    """

    took_us: int = 0
    tokens: int = 0
    wake_us: int | None = None
    emitted: list[Sequence] = field(default_factory=list)
    finished: list[Sequence] = field(default_factory=list)


IDLE = Step()


class Stepper:
    """All sequences of one engine. `slowness` stretches every step."""

    def __init__(self, profile: Profile, slowness: float = 1.0) -> None:
        self.profile, self.slowness = profile, slowness
        self.instant = profile.latency == NO_TIME
        self.pool = BlockPool(profile.kv_blocks)
        self.decoding: list[Sequence] = []
        self.prefilling: list[Sequence] = []
        self.preemptions = self.recomputed_tokens = self.prefix_queries = self.prefix_hits = 0
        self._queue = Waiting()
        self._leaving: list[Sequence] = []
        self._ending: list[Sequence] = []
        self._added = 0
        self._now = self._budget = self._kv_tokens = self._scheduled = 0
        self._short = False

    @property
    def running(self) -> int:
        """Sequences in the batch, those among them whose last token this step brings."""
        return len(self.decoding) + len(self.prefilling) + len(self._ending)

    @property
    def waiting(self) -> int:
        """Sequences outside, the preempted among them."""
        return len(self._queue)

    def add(self, sequence: Sequence, now_us: int) -> None:
        """Puts it into the queue. Raises ValueError when it can't ever fit."""
        if sequence.prompt_tokens + sequence.max_tokens > self.profile.kv_blocks * BLOCK:
            raise ValueError(
                f"{sequence.prompt_tokens} + {sequence.max_tokens} tokens don't fit the KV cache"
            )
        self._number(sequence, now_us)
        self._queue.add(sequence)

    def _number(self, sequence: Sequence, now_us: int) -> None:
        self._added += 1
        sequence.number, sequence.arrived_us = self._added, now_us
        if sequence.answer_key is None:
            sequence.answer_key = self._added
        sequence.order = (sequence.priority if self.profile.by_priority else 0, self._added)

    def abort(self, sequence: Sequence) -> bool:
        """The caller has left: it is out of the batch, and its blocks are free, from the next step on.

        False: it has ended already.
        """
        if sequence.state is State.WAITING:
            self._queue.leave()
        elif sequence.state is State.RUNNING:
            self._leaving.append(sequence)
        else:
            return False
        sequence.state = State.ABORTED
        return True

    def everyone(self) -> Iterator[Sequence]:
        """All that run or wait, in no order."""
        yield from self.decoding
        yield from self.prefilling
        yield from self._ending
        yield from self._queue

    def step(self, now_us: int) -> Step:
        """Schedules and computes one step that begins now."""
        self._let_go()
        if not (self.decoding or self.prefilling or self._queue):
            return IDLE
        budget = self._budget = self.profile.max_num_batched_tokens
        self._now, self._kv_tokens, self._scheduled, self._short = now_us, 0, 0, False
        step = Step()
        self._ending = step.finished
        if self.decoding:
            self._decode(step)
        decoded = budget - self._budget
        if self.prefilling:
            self._prefill(step)
        if self._queue:
            self._admit(step)
        step.tokens = budget - self._budget
        if not self._scheduled:
            step.wake_us = self._next_instant()
        elif not self.instant:
            took = self.profile.latency.step_us(self._scheduled, self._kv_tokens, step.tokens - decoded)
            step.took_us = took if self.slowness == 1.0 else round(took * self.slowness)
        return step

    def at_once(self, sequence: Sequence, now_us: int) -> Step | None:
        """As add() and all its steps, in an engine whose steps take no time; what they come to in one.

        (With a full cache it may forget other idle blocks than the steps would, as it takes all its room at its beginning.)
        None, and nothing is done, when it can't be so: the engine takes time, others wait, it doesn't fit beside those who
        run, or it has a pace.
        """
        room = not self._queue and self.running < self.profile.max_num_seqs
        if not (self.instant and room and sequence.plain):
            return None
        length = sequence.prompt_tokens + max(0, sequence.max_tokens - 1)
        keys = sequence.cacheable() if self.profile.prefix_caching and length > BLOCK else []
        hits = self.pool.found(keys)
        private = -(-length // BLOCK) - hits
        if not self.pool.fits(keys[:hits], private):
            return None
        self._number(sequence, now_us)
        self._hold(sequence, keys[:hits], private, now_us)
        tokens = length - sequence.computed
        sequence.generated, sequence.computed, sequence.state = sequence.max_tokens, length, State.FINISHED
        self._share_full_blocks(sequence)
        self._free(sequence)
        return Step(0, tokens, None, [], [sequence])

    def _let_go(self) -> None:
        """Frees what the last step has finished, and takes the aborted out of the batch."""
        if self._ending:
            for sequence in self._ending:
                self._share_full_blocks(sequence)
                self._free(sequence)
            self._ending = []
        if not self._leaving:
            return
        for sequence in self._leaving:
            self._free(sequence)
        self._leaving.clear()
        self.decoding = [one for one in self.decoding if one.state is State.RUNNING]
        self.prefilling = [one for one in self.prefilling if one.state is State.RUNNING]

    def _decode(self, step: Step) -> None:
        """One token for every decoding sequence. Victims of preemption are popped off the end while this goes on."""
        now, kv_tokens, emitted = self._now, 0, step.emitted
        for sequence in self.decoding:
            if sequence.next_us > now:
                continue
            computed = sequence.computed
            if not computed % BLOCK and not self._grow(sequence, 1):
                continue
            sequence.computed = computed + 1
            sequence.generated += 1
            kv_tokens += computed
            emitted.append(sequence)
            if sequence.generated >= sequence.max_tokens:
                self._finish(sequence, step)
            elif not sequence.plain:
                sequence.wait_for_its_pace(now)
        self._kv_tokens, self._scheduled = kv_tokens, len(emitted)
        self._budget -= len(emitted)
        if step.finished:
            self.decoding = [one for one in self.decoding if one.state is State.RUNNING]

    def _prefill(self, step: Step) -> None:
        """Goes on with prompts that are partly computed."""
        for sequence in list(self.prefilling):
            if not self._budget or sequence.state is not State.RUNNING or sequence.next_us > self._now:
                continue
            chunk = min(sequence.length - sequence.computed, self._budget)
            if self._grow(sequence, -(-(sequence.computed + chunk) // BLOCK) - sequence.blocks):
                self._compute(sequence, chunk, step)

    def _admit(self, step: Step) -> None:
        """Lets those in who wait, in order, while there is room in the batch, the budget and the cache."""
        while self._queue and self._budget and not self._short and self.running < self.profile.max_num_seqs:
            sequence = self._queue.first()
            keys = sequence.cacheable() if self.profile.prefix_caching else []
            hits = self.pool.found(keys)
            due = sequence.pace_us == 0 and sequence.stall_at != sequence.generated
            chunk = min(sequence.length - hits * BLOCK, self._budget) if due else 0
            private = -(-(hits * BLOCK + chunk) // BLOCK) - hits
            needed = -(-sequence.length // BLOCK) - hits if self.profile.whole_prompts else private
            if not self.pool.fits(keys[:hits], needed):
                return
            self._queue.pop()
            self._enter(sequence, keys[:hits], private)
            if chunk:
                self._compute(sequence, chunk, step)

    def _enter(self, sequence: Sequence, prefix: list[int], private: int) -> None:
        self._hold(sequence, prefix, private, self._now)
        if not sequence.plain:
            sequence.wait_for_its_pace(self._now)
        insort(self.prefilling, sequence, key=ORDER)

    def _hold(self, sequence: Sequence, prefix: list[int], private: int, now_us: int) -> None:
        self.pool.hold(prefix, private)
        sequence.shared, sequence.private = prefix, private
        sequence.computed, sequence.state = len(prefix) * BLOCK, State.RUNNING
        if not sequence.preempted:
            sequence.cached_tokens, sequence.admitted_us = sequence.computed, now_us
            self.prefix_queries += sequence.length
            self.prefix_hits += sequence.computed

    def _compute(self, sequence: Sequence, chunk: int, step: Step) -> None:
        """Computes a piece of a prompt; its end brings the first token, which the model samples in the same step."""
        self._scheduled += 1
        self._budget -= chunk
        self._kv_tokens += sequence.computed
        if sequence.preempted:
            self.recomputed_tokens += chunk
        sequence.computed += chunk
        if sequence.computed < sequence.length:
            return
        self.prefilling.remove(sequence)
        if sequence.max_tokens:
            sequence.generated += 1
            step.emitted.append(sequence)
        if sequence.generated >= sequence.max_tokens:
            self._finish(sequence, step)
            return
        if not sequence.plain:
            sequence.wait_for_its_pace(self._now)
        insort(self.decoding, sequence, key=ORDER)

    def _finish(self, sequence: Sequence, step: Step) -> None:
        """Its place and its blocks are free when this step is over."""
        sequence.state = State.FINISHED
        step.finished.append(sequence)

    def _share_full_blocks(self, sequence: Sequence) -> None:
        """Makes what it has computed findable."""
        if not self.profile.prefix_caching:
            return
        for block in range(len(sequence.shared), sequence.computed // BLOCK):
            key = sequence.key_of(block)
            self.pool.share(key)
            sequence.shared.append(key)
            sequence.private -= 1

    def _grow(self, sequence: Sequence, blocks: int) -> bool:
        """Takes blocks for it, preempting others; False when it was preempted itself."""
        self._share_full_blocks(sequence)
        while not self.pool.take(blocks):
            victim = max((ranks[-1] for ranks in (self.decoding, self.prefilling) if ranks), key=ORDER)
            self._preempt(victim)
            if victim is sequence:
                return False
        sequence.private += blocks
        return True

    def _preempt(self, victim: Sequence) -> None:
        (self.decoding if self.decoding and self.decoding[-1] is victim else self.prefilling).pop()
        self._short = True
        self.preemptions += 1
        victim.preempted += 1
        self._free(victim)
        victim.computed = 0
        self._queue.add(victim)

    def _free(self, sequence: Sequence) -> None:
        self.pool.release(sequence.shared, sequence.private)
        sequence.shared, sequence.private = [], 0

    def _next_instant(self) -> int | None:
        """When the first of the paced goes on; None when nobody does by itself."""
        soonest = min(
            (one.next_us for ranks in (self.decoding, self.prefilling) for one in ranks), default=NEVER
        )
        return None if soonest >= NEVER else soonest
