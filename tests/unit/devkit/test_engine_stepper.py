"""The engine's scheduler in virtual time: batching, chunked prefill, preemption, prefix cache, aborts."""

from dataclasses import replace

import pytest

from headrace.devkit.engine import H100, TINY, Stepper
from headrace.devkit.engine.sequences import State, block_keys
from tests.support.engine_runs import SMALL, Run, order_of_first_tokens, run_of

ONE_BY_ONE = replace(TINY, max_num_seqs=1)


def test_a_batch_of_eight_takes_hardly_longer_than_one_alone() -> None:
    alone, together = run_of(), run_of()
    alone.add(4, 50)
    for _ in range(8):
        together.add(4, 50)
    alone.to_the_end()
    together.to_the_end()
    assert len(together.steps) == len(alone.steps)
    assert alone.now < together.now < 1.2 * alone.now


def test_what_does_not_fit_the_batch_waits_for_a_place() -> None:
    run = run_of()
    sequences = [run.add(4, 10 + n) for n in range(9)]
    run.step()
    assert (run.stepper.running, run.stepper.waiting) == (8, 1)
    run.to_the_end()
    assert run.instants[sequences[8]][0] > run.instants[sequences[0]][-1]


def test_a_long_prompt_is_prefilled_in_chunks_and_delays_the_tokens_of_all() -> None:
    run = run_of()
    steady = run.add(4, 40)
    for _ in range(5):
        run.step()
    usual = run.gaps(steady)[-1]
    long = run.add(1500, 1)
    chunks = [run.step().tokens for _ in range(3)]
    assert chunks == [512, 512, 1500 - 2 * 511 + 1]  # a token each is the steady one's, which comes first
    assert len(run.instants[long]) == 1
    assert all(gap > 3 * usual for gap in run.gaps(steady)[-3:])


def test_a_prompt_that_fits_only_in_part_is_computed_in_vain_again_and_again_unless_whole_prompts_are_asked_for() -> (
    None
):
    for whole in (False, True):
        run = run_of(replace(TINY, prefix_caching=False, whole_prompts=whole))
        older, _, long = run.add(4_000, 60), run.add(2_000, 60), run.add(4_000, 1)
        while older.state is not State.FINISHED:
            run.step()
        assert (long.preempted == 0) == whole
        assert (run.stepper.recomputed_tokens == 0) == whole
        run.to_the_end()
        assert long.state is State.FINISHED


def test_the_first_token_comes_with_the_end_of_the_prompt() -> None:
    run = run_of()
    short, nothing = run.add(5, 3), run.add(5, 0)
    run.to_the_end()
    assert len(run.instants[short]) == 3
    assert (run.instants[nothing], nothing.state) == ([], State.FINISHED)


def test_first_come_is_first_served_unless_priorities_count() -> None:
    priorities = [5, 0, -1, 5, 0]
    for by_priority, order in ((False, [0, 1, 2, 3, 4]), (True, [2, 1, 4, 0, 3])):
        run = run_of(replace(ONE_BY_ONE, by_priority=by_priority))
        sequences = [run.add(4, 2, priority=priority) for priority in priorities]
        run.to_the_end()
        assert order_of_first_tokens(run, sequences) == order


def test_without_a_free_block_the_newest_is_preempted_and_computed_again() -> None:
    run = run_of(SMALL)
    old, new = run.add(40, 40), run.add(40, 40)
    run.to_the_end()
    assert run.stepper.preemptions >= 1
    assert (old.preempted, new.preempted) == (0, run.stepper.preemptions)
    assert len(run.instants[old]) == len(run.instants[new]) == 40
    assert run.finished == [old, new]
    assert run.stepper.recomputed_tokens > 0
    assert run.stepper.pool.used == 0


def test_without_a_free_block_the_least_urgent_is_preempted_when_priorities_count() -> None:
    run = run_of(replace(SMALL, by_priority=True))
    lazy, urgent = run.add(40, 40, priority=1), run.add(40, 40, priority=0)
    run.to_the_end()
    assert lazy.preempted >= 1
    assert urgent.preempted == 0
    assert run.finished == [urgent, lazy]


def test_a_prompt_whose_beginning_was_seen_skips_its_prefill() -> None:
    run, shared = run_of(), "a system prompt of some length. " * 20
    first = run.add(161, 2, keys=block_keys(shared), answer_key=1)
    run.to_the_end()
    again = run.add(171, 2, keys=block_keys(shared + "and another question to it"), answer_key=2)
    step = run.step()
    assert (first.cached_tokens, again.cached_tokens) == (0, 160)
    assert step.tokens == 171 - 160
    assert (run.stepper.prefix_hits, run.stepper.prefix_queries) == (160, 161 + 171)


def test_a_whole_prompt_in_the_cache_still_computes_its_last_block() -> None:
    run, text = run_of(), "x" * 64 * 3
    for _ in range(2):
        sequence = run.add(48, 1, keys=block_keys(text), answer_key=1)
        run.to_the_end()
    assert sequence.cached_tokens == 32


def test_a_continuation_finds_what_was_generated_before_it() -> None:
    run, keys = run_of(), block_keys("p" * 64)
    run.add(16, 64, keys=keys, answer_key=7)
    run.to_the_end()
    rest = run.add(16 + 40, 24, keys=keys, answer_key=7)
    run.to_the_end()
    assert rest.cached_tokens == 48


def test_the_least_lately_used_blocks_are_forgotten_first() -> None:
    run = run_of(replace(TINY, kv_blocks=4, max_model_len=64))
    for text in ("a", "b", "a", "c", "d"):
        last = run.add(17, 1, keys=block_keys(text * 64), answer_key=hash(text))
        run.to_the_end()
        assert last.cached_tokens == (16 if last.number == 3 else 0)
    for text, hit in (("a", 16), ("b", 0)):
        last = run.add(17, 1, keys=block_keys(text * 64), answer_key=hash(text))
        run.to_the_end()
        assert last.cached_tokens == hit, text


def test_without_a_prefix_cache_nothing_is_found() -> None:
    run = run_of(replace(TINY, prefix_caching=False))
    for _ in range(2):
        sequence = run.add(33, 1, keys=block_keys("y" * 128), answer_key=1)
        run.to_the_end()
    assert sequence.cached_tokens == run.stepper.pool.cached == 0


def test_an_abort_leaves_the_batch_and_frees_its_blocks_at_the_next_step() -> None:
    run = run_of()
    gone, stays, waits = run.add(100, 50), run.add(100, 50), run.add(4, 1)
    run.step()
    before = run.stepper.pool.used
    run.stepper.abort(gone)
    run.stepper.abort(waits)
    assert run.stepper.pool.used == before
    run.step()
    assert run.stepper.running == 1
    assert run.stepper.pool.used < before
    run.to_the_end()
    assert len(run.instants[stays]) == 50
    assert len(run.instants[gone]) == 1
    assert (run.stepper.running, run.stepper.waiting, run.stepper.pool.used) == (0, 0, 0)


def test_one_who_waits_and_leaves_is_never_computed() -> None:
    run = run_of(ONE_BY_ONE)
    run.add(4, 3)
    leaves = run.add(4, 3)
    run.step()
    run.stepper.abort(leaves)
    assert run.stepper.waiting == 0
    run.to_the_end()
    assert run.instants[leaves] == []


def test_a_paced_sequence_keeps_its_pace_and_delays_nobody() -> None:
    run = run_of()
    paced, quick = run.add(4, 5, pace_us=50_000), run.add(4, 20)
    run.to_the_end()
    assert min(run.gaps(paced)) >= 49_990  # from step to step, which differ by microseconds
    assert max(run.gaps(quick)) < 1000


def test_a_hanging_sequence_holds_its_place_for_ever() -> None:
    for after in (0, 3):
        run = run_of()
        hangs = run.add(4, 10, stall_at=after)
        run.to_the_end()
        assert (len(run.instants[hangs]), run.stepper.running) == (after, 1)
        run.stepper.abort(hangs)
        run.step()
        assert (run.stepper.running, run.stepper.pool.used) == (0, 0)


def test_a_slow_engine_takes_ten_times_as_long() -> None:
    usual, slow = run_of(), Run(Stepper(TINY, slowness=10))
    for run in (usual, slow):
        run.add(100, 10)
        run.to_the_end()
    assert slow.now == pytest.approx(10 * usual.now, rel=0.01)


def test_what_can_never_fit_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="don't fit"):
        run_of(SMALL).add(120, 20)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"max_num_batched_tokens": 4}, "less than max-num-seqs"),
        ({"kv_blocks": 10}, "give more blocks"),
        ({"max_num_seqs": 0}, "at least 1"),
    ],
)
def test_limits_that_contradict_each_other_are_refused(changes: dict[str, int], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        replace(TINY, **changes)  # type: ignore[arg-type] # counts, every one


@pytest.mark.parametrize(
    ("running", "context", "step_ms", "tokens_a_second"),
    [
        (1, 256, 6.3, 158),
        (4, 256, 6.4, 621),
        (16, 256, 6.8, 2340),
        (64, 1024, 11, 5800),
        (256, 1024, 25, 10_000),
    ],
)
def test_the_model_of_an_h100_meets_the_published_points(
    running: int, context: int, step_ms: float, tokens_a_second: float
) -> None:
    run = run_of(replace(H100, prefix_caching=False))
    for _ in range(running):
        run.add(context - 50, 100)
    while not all(run.instants.values()) or run.stepper.prefilling:
        run.step()
    took = [run.step().took_us for _ in range(20)]
    middle = sum(took) / len(took) / 1000
    assert middle == pytest.approx(step_ms, rel=0.03)
    assert running / middle * 1000 == pytest.approx(tokens_a_second, rel=0.04)  # as rounded as published
