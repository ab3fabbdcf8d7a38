"""The engine's stepper driven in virtual time, for unit tests: who got which token when."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise

from headrace.devkit.engine import TINY, Profile, Sequence, Step, Stepper


@dataclass
class Run:
    """A stepper with its clock in microseconds, and the instants of every sequence's tokens."""

    stepper: Stepper
    now: int = 0
    steps: list[Step] = field(default_factory=list)
    instants: dict[Sequence, list[int]] = field(default_factory=dict)
    finished: list[Sequence] = field(default_factory=list)

    def add(self, prompt_tokens: int, max_tokens: int, **more: object) -> Sequence:
        sequence = Sequence(prompt_tokens, max_tokens, **more)  # type: ignore[arg-type] # as each test names them
        self.stepper.add(sequence, self.now)
        self.instants[sequence] = []
        return sequence

    def step(self) -> Step:
        """One step, to its end; an idle one to the instant at which something goes on."""
        step = self.stepper.step(self.now)
        self.check(step)
        self.steps.append(step)
        self.now += step.took_us
        for sequence in step.emitted:
            self.instants[sequence].append(self.now)
        self.finished += step.finished
        if not step.tokens and step.wake_us is not None:
            self.now = step.wake_us
        return step

    def to_the_end(self, most: int = 100_000) -> None:
        """Until nothing goes on by itself."""
        for _ in range(most):
            step = self.step()
            if not step.tokens and step.wake_us is None:
                return
        raise AssertionError(f"no end after {most} steps")

    def check(self, step: Step) -> None:
        """What no step may break."""
        stepper, profile = self.stepper, self.stepper.profile
        assert stepper.pool.used + stepper.pool.cached <= profile.kv_blocks
        assert stepper.running <= profile.max_num_seqs
        assert step.tokens <= profile.max_num_batched_tokens
        held = [sequence for sequence in {*stepper.everyone()} if sequence.blocks]
        assert all(sequence.blocks * 16 >= sequence.computed for sequence in held)

    def gaps(self, sequence: Sequence) -> list[int]:
        """Microseconds between its tokens."""
        instants = self.instants[sequence]
        return [after - before for before, after in pairwise(instants)]


def order_of_first_tokens(run: Run, sequences: Iterable[Sequence]) -> list[int]:
    """Indexes of sequences by when their first token came."""
    indexed = list(enumerate(sequences))
    return [index for index, _ in sorted(indexed, key=lambda one: run.instants[one[1]][0])]


SMALL = replace(TINY, kv_blocks=8, max_model_len=128)


def run_of(profile: Profile = TINY) -> Run:
    return Run(Stepper(profile))
