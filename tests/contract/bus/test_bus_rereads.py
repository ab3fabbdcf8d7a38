"""What Rereads promises, on both buses: each run that is asked for comes once, whole, whatever else is read and written."""

import pytest

from headrace.bus.messages import Place
from headrace.bus.ports import PositionGoneError, Rereads, Run, RunRead
from tests.contract.bus.conftest import Bench, read_values
from tests.support.eventually import eventually
from tests.support.log_ends import trim

LIMIT = 100


def come(rereads: Rereads, count: int) -> list[RunRead]:
    """The next runs."""
    found: list[RunRead] = []

    def enough() -> bool:
        found.extend(rereads.answers(LIMIT))
        return len(found) >= count

    eventually(enough, f"{count} runs")
    return found


def values(runs: list[RunRead]) -> dict[Run, list[bytes | None]]:
    """What stood in each."""
    return {each.run: [record.value for record in each.records] for each in runs}


def numbers(first: int, stop: int) -> list[bytes]:
    """The values at these offsets, as `written` wrote them."""
    return [b"%d" % number for number in range(first, stop)]


def written(bench: Bench, place: Place, count: int) -> None:
    """So many records, each with its own offset as its value."""
    bench.write(place, *numbers(0, count))


def test_a_run_comes_whole_and_nothing_beside_it(bench: Bench) -> None:
    (place,) = bench.topic("t")
    written(bench, place, 50)
    rereads, run = bench.bus.rereads("again"), Run(place, 10, 20)
    assert rereads.answers(LIMIT) == [], "nothing was asked for"
    rereads.ask(run)
    (only,) = come(rereads, 1)
    assert only.run == run
    assert [record.offset for record in only.records] == list(range(10, 20))
    assert values([only]) == {run: numbers(10, 20)}
    assert rereads.answers(LIMIT) == []
    rereads.close()


def test_runs_of_one_partition_come_in_the_order_asked_forward_and_back(bench: Bench) -> None:
    (place,) = bench.topic("t")
    written(bench, place, 60)
    rereads = bench.bus.rereads("again")
    runs = [Run(place, *ends) for ends in ((30, 40), (40, 45), (0, 5), (50, 60), (2, 3), (2, 3), (30, 40))]
    for run in runs:
        rereads.ask(run)
    found = come(rereads, len(runs))
    assert [each.run for each in found] == runs
    for each in found:
        assert [record.value for record in each.records] == numbers(each.run.first, each.run.stop)
    rereads.close()


def test_runs_of_several_partitions_come_beside_each_other(bench: Bench) -> None:
    places = bench.topic("t", partitions=3)
    for place in places:
        written(bench, place, 40)
    rereads = bench.bus.rereads("again")
    runs = [Run(place, first, first + 4) for first in (0, 30, 8) for place in places]
    for run in runs:
        rereads.ask(run)
    found = values(come(rereads, len(runs)))
    assert found == {run: numbers(run.first, run.stop) for run in runs}
    rereads.close()


def test_a_run_that_is_asked_for_while_another_comes_is_read_too(bench: Bench) -> None:
    first, second = bench.topic("t", partitions=2)
    written(bench, first, 600)
    written(bench, second, 20)
    rereads = bench.bus.rereads("again")
    long, short = Run(first, 0, 500), Run(second, 5, 7)
    rereads.ask(long)
    found = rereads.answers(3)
    rereads.ask(short)
    found += come(rereads, 2)
    assert values(found) == {long: numbers(0, 500), short: numbers(5, 7)}
    rereads.close()


def test_rereads_leave_whoever_reads_on_where_it_is(bench: Bench) -> None:
    (place,) = bench.topic("t")
    written(bench, place, 30)
    reader, rereads = bench.reader(place), bench.bus.rereads("again")
    assert read_values(reader, 20) == numbers(0, 20)
    rereads.ask(Run(place, 3, 6))
    assert values(come(rereads, 1)) == {Run(place, 3, 6): numbers(3, 6)}
    assert reader.position(place) == 20
    assert read_values(reader, 10) == numbers(20, 30)
    reader.close()
    rereads.close()


def test_the_last_record_of_a_log_ends_a_run_and_what_comes_behind_it_is_not_in_it(bench: Bench) -> None:
    (place,) = bench.topic("t")
    written(bench, place, 10)
    rereads = bench.bus.rereads("again")
    rereads.ask(Run(place, 9, 10))
    assert values(come(rereads, 1)) == {Run(place, 9, 10): [b"9"]}
    bench.write(place, b"new")
    assert rereads.answers(LIMIT) == []
    rereads.ask(Run(place, 8, 11))
    assert values(come(rereads, 1)) == {Run(place, 8, 11): [b"8", b"9", b"new"]}
    rereads.close()


def test_a_marker_between_is_left_out(bench: Bench) -> None:
    (place,) = bench.topic("t")
    state = bench.bus.fenced_state("owner", place=place, transactional_id=f"{bench.prefix}id")
    eventually(state.claim, "a claim")
    for number in (0, 2):  # each commit leaves its marker behind its record
        state.begin([bench.message(place, b"%d" % number)])
        eventually(state.committed, "a commit")
    rereads = bench.bus.rereads("again")
    rereads.ask(Run(place, 0, 3))
    (only,) = come(rereads, 1)
    assert [(record.offset, record.value) for record in only.records] == [(0, b"0"), (2, b"2")]
    rereads.close()
    state.close()


def test_a_run_that_was_trimmed_is_said_to_be_gone(bench: Bench) -> None:
    (place,) = bench.topic("t")
    written(bench, place, 10)
    trim(bench.bus, {place: 5})
    rereads = bench.bus.rereads("again")
    rereads.ask(Run(place, 3, 4))
    raised: list[PositionGoneError] = []

    def gone() -> bool:
        try:
            rereads.answers(LIMIT)
        except PositionGoneError as error:
            raised.append(error)
        return bool(raised)

    eventually(gone, "the position is said to be gone")
    assert (raised[0].place, raised[0].position) == (place, 3)
    rereads.close()


def test_a_large_run_comes_in_many_looks(bench: Bench) -> None:
    (place,) = bench.topic("t")
    body = bytes(100_000)
    bench.write(place, *[body] * 40)
    rereads = bench.bus.rereads("again")
    rereads.ask(Run(place, 1, 40))
    (only,) = come(rereads, 1)
    assert [len(record.value or b"") for record in only.records] == [100_000] * 39
    rereads.close()


@pytest.mark.parametrize("asked", [True, False])
def test_closing_is_possible_at_any_time(bench: Bench, asked: bool) -> None:
    (place,) = bench.topic("t")
    written(bench, place, 3)
    rereads = bench.bus.rereads("again")
    if asked:
        rereads.ask(Run(place, 0, 2))
        rereads.answers(1)
    rereads.close()


def test_what_is_given_up_is_told_of_and_never_comes_and_the_rest_does(bench: Bench) -> None:
    here, there = bench.topic("t", partitions=2)
    for place in (here, there):
        written(bench, place, 30)
    rereads, mine = bench.bus.rereads("again"), [Run(here, 2, 4), Run(here, 20, 21)]
    for run in (*mine, Run(there, 5, 9)):
        rereads.ask(run)
    assert rereads.give_up(here) == mine
    assert rereads.give_up(here) == []
    assert values(come(rereads, 1)) == {Run(there, 5, 9): numbers(5, 9)}
    rereads.ask(Run(here, 7, 8))
    assert values(come(rereads, 1)) == {Run(here, 7, 8): numbers(7, 8)}, "asked anew it comes"
    assert rereads.answers(LIMIT) == []
    rereads.close()
