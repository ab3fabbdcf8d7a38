"""Wrong ways to learn how much a backend may hold, each caught by a test that the right one passes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from headrace.contracts.reports import Report
from headrace.scheduler.core.holding import Holding
from headrace.scheduler.decisions import how_many_requests_fit, how_many_tokens_fit
from headrace.scheduler.decisions.how_many_requests_fit import Look, RequestLimit
from headrace.scheduler.decisions.how_many_to_send_ahead import to_send_ahead
from headrace.scheduler.state import backend_limits
from headrace.scheduler.state.backend_limits import BackendLimits
from headrace.scheduler.state.latencies import Latencies
from tests.unit.scheduler import test_how_much_a_backend_may_hold as rules
from tests.unit.scheduler import test_latencies as latencies
from tests.unit.scheduler import test_learned_caches as caches
from tests.unit.scheduler import test_learned_limits as core
from tests.unit.scheduler import test_settles_on_an_engine as engine

Patch = pytest.MonkeyPatch


def look_otherwise(patch: Patch, **changes: Any) -> None:
    """Decisions about requests see something else than there is."""
    for name in ("must_cut", "may_grow"):
        right = getattr(how_many_requests_fit, name)

        def decided(now: RequestLimit, look: Look, boot_ms: int, right: Any = right) -> bool:
            answer: bool = right(now, replace(look, **changes), boot_ms)
            return answer

        patch.setattr(how_many_requests_fit, name, decided)


def grows_without_need(patch: Patch) -> None:
    right = how_many_requests_fit.may_grow

    def may_grow(now: RequestLimit, look: Look, boot_ms: int) -> bool:
        return right(replace(now, peak=now.limit), look, boot_ms)

    patch.setattr(how_many_requests_fit, "may_grow", may_grow)


def cuts_twice_in_a_service_time(patch: Patch) -> None:
    look_otherwise(patch, service_ms=0)


def cuts_before_the_last_cut_is_obeyed(patch: Patch) -> None:
    right = how_many_requests_fit.must_cut

    def must_cut(now: RequestLimit, look: Look, boot_ms: int) -> bool:
        return right(replace(now, frozen=False), look, boot_ms)

    patch.setattr(how_many_requests_fit, "must_cut", must_cut)


def grows_on_old_news(patch: Patch) -> None:
    look_otherwise(patch, fresh=True)


def believes_stale_gauges(patch: Patch) -> None:
    patch.setattr(how_many_requests_fit, "_is_stale", lambda _look: False)


def late_first_tokens_are_a_refusal(patch: Patch) -> None:
    right = how_many_requests_fit._is_told

    def is_told(now: RequestLimit, look: Look, boot_ms: int) -> bool:
        return right(now, look, boot_ms) or how_many_requests_fit._is_slow(look)

    patch.setattr(how_many_requests_fit, "_is_told", is_told)


def what_is_sent_ahead_is_a_queue(patch: Patch) -> None:
    patch.setattr(Look, "most", property(lambda _: how_many_requests_fit.MOST_WAITING))


def a_step_is_no_wait(patch: Patch) -> None:
    patch.setattr(backend_limits, "to_send_ahead", lambda rate, gap_ms, _: to_send_ahead(rate, gap_ms, 0))


def only_so_many_ends_are_known(patch: Patch) -> None:
    right = Latencies._ends_since
    patch.setattr(Latencies, "_ends_since", lambda self, quarter: min(1_000, right(self, quarter)))


def begins_small_without_gauges(patch: Patch) -> None:
    right = how_many_requests_fit.first_limit

    def first_limit(ceiling: int, held: int = 0, *, gauged: bool = True) -> RequestLimit:  # noqa: ARG001
        return right(ceiling, held)

    patch.setattr(backend_limits, "first_limit", first_limit)


def theta_never_falls(patch: Patch) -> None:
    right = how_many_tokens_fit.next_theta

    def next_theta(now: Any, look: Any, boot_ms: int) -> Any:
        return right(now, replace(look, preempted=False), boot_ms)

    patch.setattr(backend_limits, "next_theta", next_theta)


def a_giant_waits_for_ever(patch: Patch) -> None:
    right = BackendLimits.may_promise

    def may_take(self: BackendLimits, load: Any) -> bool:
        return right(self, self.loads.peak_with(load))

    patch.setattr(BackendLimits, "may_take", may_take)


def what_waits_inside_is_taken_to_be_cached(patch: Patch) -> None:
    right = BackendLimits._learn_kv

    def learn_kv(self: BackendLimits) -> None:
        told = self.gauges
        if told is not None:
            self.gauges = structs.replace(told, waiting=0)
        right(self)
        self.gauges = told

    patch.setattr(BackendLimits, "_learn_kv", learn_kv)


def limits_outlive_boots(patch: Patch) -> None:
    right, kept = Holding._limits_of, dict[str, BackendLimits]()

    def limits_of(self: Holding, report: Report) -> BackendLimits:
        self._state.limits[report.boot] = kept.setdefault(report.worker, right(self, report))
        return self._state.limits[report.boot]

    patch.setattr(Holding, "_limits_of", limits_of)


def the_lapsed_are_remembered(patch: Patch) -> None:
    patch.setattr(Holding, "forget", lambda _self, _boot: None)


WRONG: list[tuple[Callable[[Patch], None], Callable[[], None]]] = [
    (grows_without_need, rules.test_it_never_grows_while_there_is_too_little_to_do),
    (
        cuts_twice_in_a_service_time,
        rules.test_a_cut_isnt_followed_by_another_before_a_service_time_nor_before_it_was_obeyed,
    ),
    (
        cuts_before_the_last_cut_is_obeyed,
        rules.test_a_cut_isnt_followed_by_another_before_a_service_time_nor_before_it_was_obeyed,
    ),
    (grows_on_old_news, core.test_a_sample_that_was_seen_before_lets_nothing_grow),
    (
        believes_stale_gauges,
        rules.test_without_news_the_limit_is_held_and_then_goes_back_to_the_last_good_one,
    ),
    (late_first_tokens_are_a_refusal, rules.test_late_first_tokens_cut_nothing_below_what_any_engine_holds),
    (
        what_is_sent_ahead_is_a_queue,
        engine.test_it_fills_an_engine_of_many_short_answers_and_holds_a_quarter_of_a_second_of_work_besides,
    ),
    (
        a_step_is_no_wait,
        engine.test_it_fills_an_engine_that_ends_many_at_the_end_of_each_step_however_long_the_trip,
    ),
    (only_so_many_ends_are_known, latencies.test_ends_are_counted_however_many_there_are),
    (
        begins_small_without_gauges,
        core.test_without_metrics_the_operators_word_holds_until_something_is_too_much,
    ),
    (theta_never_falls, rules.test_a_cache_keeps_back_what_doesnt_fit_and_shrinks_on_preemptions),
    (
        a_giant_waits_for_ever,
        caches.test_who_fits_no_cache_runs_alone_and_the_engine_says_what_it_thinks_of_it,
    ),
    (what_waits_inside_is_taken_to_be_cached, caches.test_what_waits_inside_says_nothing_of_the_cache),
    (limits_outlive_boots, core.test_a_new_boot_begins_anew),
    (the_lapsed_are_remembered, core.test_who_is_gone_or_has_lost_touch_is_forgotten),
]


@pytest.mark.interpreted
@pytest.mark.parametrize(("wrong", "test"), WRONG, ids=lambda each: each.__name__)
def test_a_wrong_limit_is_caught(
    monkeypatch: Patch, wrong: Callable[[Patch], None], test: Callable[[], None]
) -> None:
    test()
    wrong(monkeypatch)
    with pytest.raises(AssertionError):
        test()
