"""A simulated backend takes the time that prompt and tokens take, within its slots and its memory."""

from dataclasses import replace

from headrace.scheduler.simulate.backend import Backend
from headrace.scheduler.simulate.jobs import Job
from tests.support.scheduler.simulated_jobs import MODEL, job


def test_a_backend_takes_the_time_that_prompt_and_tokens_take() -> None:
    backend = Backend(MODEL)
    one = job(0, tokens=10)
    backend.start(one, 0)
    assert backend.next_ms(0) == 100 + 100
    assert [backend.tokens_of(one, at_ms) for at_ms in (99, 150, 200)] == [0, 5, 10]
    assert [running.job for running in backend.turn(200)] == [one]


def test_what_is_beyond_the_slots_waits_inside() -> None:
    backend = Backend(replace(MODEL, slots=1))
    one, two = job(0), job(1)
    backend.start(one, 0)
    backend.start(two, 0)
    assert len(backend.waiting) == 1
    backend.turn(200)
    assert (two.started_ms, len(backend.waiting)) == (200, 0)


def test_a_backend_short_of_memory_puts_the_newest_back_and_finishes_all() -> None:
    backend = Backend(replace(MODEL, kv_tokens=230))
    one, two = job(0, tokens=50), job(1, tokens=50)
    backend.start(one, 0)
    backend.start(two, 0)
    now_ms, ended = 0, list[Job]()
    while len(ended) < 2:
        now_ms = backend.next_ms(now_ms) or 0
        ended += [running.job for running in backend.turn(now_ms)]
        held = sum(100 + backend.tokens_of(each, now_ms) for each in backend.running)
        assert held <= 230
    assert (ended, backend.preemptions) == ([one, two], 1)
    assert 600 + 115 + 340 <= now_ms <= 600 + 115 + 360
