"""What `headrace pools show` and `headrace workers show` make of the logs."""

from headrace.cli.pool_picture import picture_of
from headrace.cli.worker_picture import workers_of
from headrace.contracts.checkpoints import Ownership
from headrace.contracts.ids import AttemptId
from headrace.contracts.observations import QueueState, Standby
from headrace.contracts.reports import Allowed, Gone, Held, Left, PerMinute, Report, Tick, WorkerRecord
from headrace.contracts.values import Origin

NOW = 1_700_000_000_000


def ownership(number: int, **more: object) -> tuple[int, Ownership]:
    fields = {"epoch": 3, "owner": "a", "gate_open": True, "since_ms": NOW - 60_000, **more}
    return NOW - 500, Ownership(number=number, begun_ms=NOW - 600, **fields)  # type: ignore[arg-type]


def tier(name: str, epoch: int, depth: int) -> QueueState:
    return QueueState(
        pool="p", tier=name, epoch=epoch, as_of_ms=NOW, depth=depth, held=2, limit=8, paused_partitions=1
    )


def standby(replica: str, age_ms: int, pool: str = "p", rank: int = 0) -> Standby:
    return Standby(pool=pool, replica=replica, as_of_ms=NOW - age_ms, rank=rank, behind=7)


def test_a_pools_picture_is_its_newest_owners_word_and_the_standbys_that_still_speak() -> None:
    states: list[QueueState | Standby] = [
        tier("batch", 3, 5), tier("batch", 3, 9), tier("standard", 3, 1), tier("old", 2, 100),
        standby("c", 14_000, rank=1), standby("b", 100), standby("dead", 16_000), standby("x", 0, pool="other"),
        standby("a", 3_000),
    ]  # fmt: skip
    picture = picture_of("p", [ownership(1, epoch=2, owner="old"), ownership(2)], states, NOW)
    assert (picture.owner, picture.epoch, picture.gate_open) == ("a", 3, True)
    assert (picture.waiting, picture.in_flight, picture.slots, picture.paused_partitions) == (10, 4, 8, 2)
    assert [one.replica for one in picture.standbys] == ["b", "c"]
    assert not picture.silent(NOW)
    assert picture.silent(NOW + 5_000)


def test_a_pool_that_was_given_up_has_no_owner_and_says_to_whom_it_is_left() -> None:
    picture = picture_of("p", [ownership(4, released=True, successor="b")], [standby("a", 0)], NOW)
    assert (picture.owner, picture.successor, picture.gate_open) == (None, "b", False)
    assert [one.replica for one in picture.standbys] == ["a"]
    assert not picture.silent(NOW + 60_000)


def test_a_pool_that_nobody_has_owned_yet_is_shown_too() -> None:
    picture = picture_of("p", [], [], NOW)
    assert (picture.owner, picture.epoch, picture.standbys) == (None, 0, ())


def report(worker: str, boot: str, **more: object) -> tuple[int, Report]:
    return NOW, Report(worker=worker, boot=boot, epoch=1, lane=0, position=0, limit=4, **more)  # type: ignore[arg-type]


def test_workers_are_shown_by_their_newest_boot_until_they_say_goodbye() -> None:
    held = Held(
        attempt=AttemptId(1, 1),
        id="r",
        tenant="t",
        tier="b",
        origin=Origin("q", 0, 0),
        attempts=1,
        running=True,
    )
    log: list[tuple[int, WorkerRecord]] = [
        report("w", "2", draining=True, held=(held,)), report("w", "1"), (NOW, Tick(epoch=1, number=1)),
        report("gone", "1"), (NOW, Gone(worker="gone", boot="1")), report("down", "1", healthy=False),
        report("done", "1", draining=True), (NOW, Gone(worker="done", boot="0")), report("well", "1"),
    ]  # fmt: skip
    states = {worker.name: worker.state(NOW) for worker in workers_of("p", log)}
    assert states == {"w": "draining", "down": "backend down", "done": "drained", "well": "serving"}
    assert {worker.state(NOW + 5_001) for worker in workers_of("p", log)} == {"silent"}
    assert {worker.told(NOW + 83_000) for worker in workers_of("p", log)} == {"silent for 1m23s"}
    assert [worker.told(NOW) for worker in workers_of("p", log)] == list(states.values())
    assert next(w for w in workers_of("p", log) if w.name == "w").running == 1


def test_a_worker_shows_what_its_backend_takes_as_its_operator_and_the_backend_say() -> None:
    takes = PerMinute(requests=60, tokens=150_000)
    said = Allowed(
        requests=Left(left=-2, reset_ms=900, limit=60), tokens=Left(left=1_200, reset_ms=5, limit=90_000)
    )
    log = [
        report("told", "1", per_minute=takes, allowed=said),
        report("later", "2", per_minute=PerMinute(tokens=5), allowed=Allowed(requests=Left(limit=500))),
        report("bare", "3", allowed=Allowed(tokens=Left(left=7, reset_ms=5))),
        report("quiet", "4"),
    ]
    assert {each.name: (each.takes, each.left) for each in workers_of("p", log)} == {
        "told": ("60 requests, 150,000 tokens", "0 of 60 requests, 1,200 of 90,000 tokens"),
        "later": ("5 tokens", "any of 500 requests"),
        "bare": ("", "7 tokens"),
        "quiet": ("", ""),
    }
