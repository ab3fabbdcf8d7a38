"""Steps that the engine takes at once come to what they come to one by one, and whatever comes everyone gets all tokens."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.devkit.engine import INSTANT, TINY, Sequence, Stepper
from headrace.devkit.engine.sequences import State, block_keys
from tests.support.engine_runs import SMALL, Run, run_of


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 80), st.integers(0, 40), st.sampled_from("ab")), min_size=1))
def test_at_once_comes_to_what_the_steps_come_to(asks: list[tuple[int, int, str]]) -> None:
    stepped, at_once = run_of(INSTANT), Stepper(INSTANT)
    for prompt, output, letter in asks:
        more: dict[str, Any] = {"keys": block_keys(letter * 4 * prompt), "answer_key": hash((letter, prompt))}
        slow, quick = stepped.add(prompt, output, **more), Sequence(prompt, output, **more)
        stepped.to_the_end()
        step = at_once.at_once(quick, 0)
        assert step
        assert step.tokens == sum(one.tokens for one in stepped.steps)
        stepped.steps.clear()
        assert (quick.generated, quick.cached_tokens, quick.state) == (
            slow.generated, slow.cached_tokens, slow.state,
        )  # fmt: skip
        pools = at_once.pool, stepped.stepper.pool
        assert pools[0].used == pools[1].used == 0
        assert pools[0].cached == pools[1].cached
    assert at_once.prefix_hits == stepped.stepper.prefix_hits


def test_nothing_is_done_at_once_where_time_passes_or_others_wait() -> None:
    assert Stepper(TINY).at_once(Sequence(4, 4), 0) is None
    instant = Stepper(replace(INSTANT, max_num_seqs=1))
    assert instant.at_once(Sequence(4, 4, pace_us=1000), 0) is None
    instant.add(Sequence(4, 4, stall_at=0), 0)
    assert instant.at_once(Sequence(4, 4), 0) is None
    instant.step(0)
    assert instant.at_once(Sequence(4, 4), 0) is None
    assert (instant.running, instant.waiting) == (1, 0)


ASKS = st.tuples(
    st.integers(1, 60), st.integers(0, 60), st.integers(0, 2), st.sampled_from("ab"), st.integers(0, 30)
)


def played(asks: list[tuple[int, int, int, str, int]], *, by_priority: bool) -> tuple[Run, list[Sequence]]:
    """A crowd in a small cache; each arrives some steps after the one before, every seventh leaves in between."""
    run, sequences = run_of(replace(SMALL, max_num_seqs=4, by_priority=by_priority)), []
    for index, (prompt, output, priority, letter, pause) in enumerate(asks):
        keys = block_keys(letter * 4 * prompt)
        sequences.append(
            run.add(prompt, output, priority=priority, keys=keys, answer_key=hash((letter, prompt)))
        )
        for _ in range(pause):
            run.step()
        if index % 7 == 6:
            run.stepper.abort(sequences[index - 3])
    run.to_the_end()
    return run, sequences


@settings(deadline=None, max_examples=60)
@given(st.lists(ASKS, min_size=1, max_size=25), st.booleans())
def test_whatever_comes_everyone_gets_all_tokens_and_every_block_comes_back(
    asks: list[tuple[int, int, int, str, int]], by_priority: bool
) -> None:
    run, sequences = played(asks, by_priority=by_priority)
    for sequence, (_, output, *_) in zip(sequences, asks, strict=True):
        if sequence.state is State.FINISHED:
            assert len(run.instants[sequence]) == output
        else:
            assert sequence.state is State.ABORTED
    assert sum(sequence.state is State.ABORTED for sequence in sequences) <= len(asks) // 7
    assert (run.stepper.running, run.stepper.waiting, run.stepper.pool.used) == (0, 0, 0)
    again, others = played(asks, by_priority=by_priority)
    assert [run.instants[one] for one in sequences] == [again.instants[one] for one in others]
