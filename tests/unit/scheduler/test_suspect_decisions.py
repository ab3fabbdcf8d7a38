"""The three questions about suspects, each by its invariant."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.deaths import Death
from headrace.contracts.failures import FailureKind, rule_of
from headrace.scheduler.decisions.who_is_suspect import SAME_DEATH, is_cleared, is_same_death, must_be_apart
from headrace.scheduler.decisions.who_is_the_killer import WINDOW, is_killer
from headrace.scheduler.decisions.who_runs_alone import (
    LONGEST_TURN,
    MOST_PATIENT_TURN,
    MOST_SINGLY,
    is_turn_over,
    may_begin,
    next_turn,
    parts_of,
)

NOW = 1_700_000_000_000
KINDS = (FailureKind.WORKER_DIED, FailureKind.ENGINE_DIED)


def death(
    number: int, *, trial: int = 0, held: int = 1, at_ms: int = NOW, killer: str | None = None
) -> Death:
    return Death(
        key=f"boot{number}", at_ms=at_ms, worker="w", boot=f"boot{number}", kind=FailureKind.WORKER_DIED,
        trial=trial, held=held, killer=killer,
    )  # fmt: skip


DEATHS = st.builds(
    lambda trial, held, age_ms, killer: death(0, trial=trial, held=held, at_ms=NOW - age_ms, killer=killer),
    st.integers(0, 3), st.integers(1, 3), st.integers(0, 2 * WINDOW.seconds * 1_000), st.sampled_from([None, "req_x"]),
)  # fmt: skip


def numbered(deaths: list[Death], first: int) -> list[Death]:
    return [
        death(first + n, trial=d.trial, held=d.held, at_ms=d.at_ms, killer=d.killer)
        for n, d in enumerate(deaths)
    ]


@given(st.lists(DEATHS, max_size=6), st.lists(DEATHS, max_size=30), st.booleans())
def test_nobody_is_convicted_but_by_a_death_alone_and_more_of_them_than_happen_anyway(
    own: list[Death], others: list[Death], did_well: bool
) -> None:
    mine, theirs = numbered(own, 0), numbered(others, 100)
    alone = [each for each in mine if (each.trial, each.held) == (1, 1)]
    unexplained = [d for d in theirs if d.killer is None and NOW - d.at_ms <= WINDOW.seconds * 1_000]
    if is_killer(mine, [*mine, *theirs], did_well=did_well, wall_ms=NOW):
        assert mine[-1] in alone
        assert len(alone) > min(len(unexplained), 2 if did_well else 10**9)


@given(st.lists(DEATHS, max_size=5), st.lists(DEATHS, max_size=30), st.booleans())
def test_what_dies_alone_often_enough_is_convicted_whatever_else_dies(
    own: list[Death], others: list[Death], did_well: bool
) -> None:
    mine = [*numbered(own, 0), *(death(50 + n, trial=1) for n in range(31))]
    theirs = numbered(others, 100)
    assert is_killer(mine, [*mine, *theirs], did_well=did_well, wall_ms=NOW)


def test_the_first_death_alone_convicts_where_nothing_else_dies() -> None:
    mine = [death(1, held=8), death(2, held=8), death(3, trial=1)]
    assert is_killer(mine, mine, did_well=False, wall_ms=NOW)
    assert not is_killer(mine, [*mine, death(4)], did_well=False, wall_ms=NOW)
    assert not is_killer(mine[:2], mine[:2], did_well=True, wall_ms=NOW)
    assert not is_killer([], [], did_well=True, wall_ms=NOW)


def test_deaths_that_a_found_killer_explains_speak_against_nobody_else() -> None:
    company = [death(1, held=8, killer="req_x"), death(2, held=8, killer="req_x")]
    mine = company + [death(3 + n, trial=1) for n in range(3)]
    assert not is_killer(mine[:3], mine[:3], did_well=False, wall_ms=NOW)
    assert not is_killer(mine[:4], mine[:4], did_well=True, wall_ms=NOW)
    assert is_killer(mine, mine, did_well=False, wall_ms=NOW)


@given(
    kind=st.sampled_from(KINDS), boot=st.sampled_from(["boot0", "boot1"]), late_ms=st.integers(-20_000, 20_000),
    trials=st.tuples(st.integers(0, 2), st.integers(0, 2)), again=st.booleans(),
)  # fmt: skip
def test_a_death_is_one_boots_at_one_time_and_has_a_request_once(
    kind: FailureKind, boot: str, late_ms: int, trials: tuple[int, int], again: bool
) -> None:
    known = death(0, trial=trials[0])
    same = is_same_death(
        Death(key="k", at_ms=NOW, worker="w", boot=known.boot, kind=kind, trial=known.trial),
        boot=boot, kind=kind, at_ms=NOW + late_ms, trial=trials[1], known=("k",) if again else (),
    )  # fmt: skip
    if again or boot != known.boot:
        assert not same
    elif kind is FailureKind.WORKER_DIED:
        assert same, "a boot dies once"
    else:
        near = abs(late_ms) <= SAME_DEATH.seconds * 1_000
        assert same is (near and bool(trials[0]) is bool(trials[1]))


def test_a_workers_and_an_engines_death_are_two() -> None:
    worker = death(0)
    assert not is_same_death(
        worker, boot=worker.boot, kind=FailureKind.ENGINE_DIED, at_ms=NOW, trial=0, known=()
    )


@given(kind=st.sampled_from(FailureKind), started=st.booleans(), trial=st.integers(0, 3))
def test_only_a_trial_after_which_the_engine_still_answered_clears(
    kind: FailureKind, started: bool, trial: int
) -> None:
    if is_cleared(kind, started=started, trial=trial):
        assert trial
        assert started
        assert rule_of(kind).uses_attempt, "an outage is no trial"
        assert kind not in {FailureKind.STREAM_BROKEN, FailureKind.BACKEND_TIMEOUT}


def test_a_backends_error_in_a_trial_clears() -> None:
    assert is_cleared(FailureKind.BACKEND_ERROR, started=True, trial=1)
    assert not is_cleared(FailureKind.BACKEND_ERROR, started=True, trial=0)
    assert not is_cleared(FailureKind.BACKEND_OVERLOADED, started=True, trial=1)


@given(st.integers(0, 20))
def test_only_who_is_common_to_two_deaths_is_kept_apart(deaths: int) -> None:
    assert must_be_apart(deaths) is (deaths >= 2)


@given(st.lists(st.uuids().map(str), unique=True, max_size=300), st.integers(1, 64))
def test_a_group_is_divided_without_loss_few_one_by_one_and_no_part_is_too_large(
    members: list[str], limit: int
) -> None:
    parts = parts_of(members, limit)
    assert [member for part in parts for member in part] == members
    if len(members) <= MOST_SINGLY:
        assert all(len(part) == 1 for part in parts)
    else:
        assert all(len(part) <= min(limit, (len(members) + 1) // 2) for part in parts)


def test_a_turn_without_a_trial_makes_the_next_ones_longer_until_one_has_a_trial() -> None:
    turns = [LONGEST_TURN]
    for _ in range(8):
        turns.append(next_turn(turns[-1], trials=0))
    assert turns[:4] == [LONGEST_TURN, 2 * LONGEST_TURN, 4 * LONGEST_TURN, 8 * LONGEST_TURN]
    assert turns[-1] == MOST_PATIENT_TURN
    assert next_turn(turns[-1], trials=1) == LONGEST_TURN


@given(st.integers(0, 4), st.booleans(), st.integers(0, 100_000), st.integers(0, 100_000))
def test_the_only_worker_neither_starves_other_work_nor_the_search(
    workers: int, work_waits: bool, since_ms: int, boot_ms: int
) -> None:
    begins = may_begin(workers=workers, work_waits=work_waits, rest_until_ms=since_ms, boot_ms=boot_ms)
    ends = is_turn_over(workers=workers, work_waits=work_waits, since_ms=since_ms, boot_ms=boot_ms)
    if workers > 1:
        assert (begins, ends) == (True, False)
    elif not work_waits:
        assert (begins, ends) == (workers == 1, False)
    else:
        assert ends is (boot_ms - since_ms >= LONGEST_TURN.seconds * 1_000)
        assert begins is (workers == 1 and boot_ms >= since_ms)
