"""A policy file that changes takes effect as a whole, or is refused and the old one stays."""

import os
import signal
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from headrace.contracts.policy import Policy
from headrace.runtime.clock import ManualClock
from headrace.runtime.metrics import Metrics
from headrace.runtime.policy_file import load_policy
from headrace.runtime.policy_watch import FollowingPolicy, PolicyWatch
from tests.support.eventually import eventually

POOLS = '[pools.small.models]\nm = "m"\n'
TENANT = "[tenants.acme]\nweight = {}\n"


class Watched:
    """A file, a watch on it, and what was adopted since."""

    def __init__(self, path: Path) -> None:
        self.path, self.clock, self.metrics = path, ManualClock(), Metrics("test")
        self.lacks: str | None = None
        self.looks = 0
        self.watch = PolicyWatch(
            path, load_policy(path), clock=self.clock, metrics=self.metrics, lacks=self._look
        )

    def _look(self, _policy: Policy) -> str | None:
        self.looks += 1
        if self.lacks == "no broker":
            raise OSError(self.lacks)
        return self.lacks

    def seconds(self, count: int = 3) -> list[Policy]:
        """What takes effect in so many seconds, in turns of 100 ms."""
        found = []
        for _ in range(10 * count):
            self.clock.advance(timedelta(milliseconds=100))
            found.append(self.watch.turn())
        return [policy for policy in found if policy is not None]

    @property
    def refused(self) -> float | None:
        return self.metrics.registry.get_sample_value("headrace_policy_refused")

    @property
    def weight(self) -> int:
        return self.watch.policy.tenants["acme"].weight


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    path = tmp_path / "policy.toml"
    path.write_text(POOLS + TENANT.format(1))
    made = Watched(path)
    assert made.seconds() == []
    return made


def test_a_change_takes_effect_once_the_file_is_quiet(watched: Watched) -> None:
    watched.path.write_text(POOLS + TENANT.format(2))
    (policy,) = watched.seconds()
    assert policy is watched.watch.policy
    assert watched.weight == 2
    assert watched.seconds() == []
    assert watched.metrics.registry.get_sample_value("headrace_policy_changes_total") == 1


def test_a_change_between_the_start_and_the_first_look_isnt_missed(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(POOLS + TENANT.format(1))
    made = Watched(path)
    path.write_text(POOLS + TENANT.format(2))
    assert len(made.seconds()) == 1


def test_a_file_that_is_being_written_is_waited_for(watched: Watched) -> None:
    """Each half is a policy by itself, or none; neither is looked into."""
    text = POOLS + TENANT.format(5) + TENANT.replace("acme", "birch").format(7)
    with capture_logs() as logs:
        for end in range(10, len(text), 10):
            watched.path.write_text(text[:end])
            assert watched.seconds(1) == []
        watched.path.write_text(text)
        (policy,) = watched.seconds()
    assert policy.tenants["birch"].weight == 7
    assert [line["event"] for line in logs] == ["policy changed"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[pools", "isn't valid TOML"),
        pytest.param("a = " + "[" * 100_000, "too many brackets", id="brackets"),
        (POOLS + TENANT.format(-1), "tenants.acme.weight: expected an integer >= 1"),
        (POOLS + '[tenants.acme]\ntiers = ["gold"]\n', "tenants.acme: there is no tier 'gold'"),
        (
            POOLS
            + "[tiers.standard]\nweight = 1\nfloor_percent = 60\n[tiers.batch]\nweight = 1\nfloor_percent = 60\n",
            "add up to more than 100",
        ),
        (
            POOLS + "[topics]\nlanes = 3\n",
            "topics.lanes: 16 became 3: run `headrace topics apply`, then restart",
        ),
        ("", "pools: missing"),
    ],
    ids=str,
)
def test_what_is_wrong_is_refused_in_one_line_and_the_old_one_stays(
    watched: Watched, text: str, reason: str
) -> None:
    old = watched.watch.policy
    watched.path.write_text(text)
    with capture_logs() as logs:
        assert watched.seconds(5) == []
    assert watched.watch.policy is old
    assert watched.refused == 1
    (line,) = logs
    assert (line["event"], line["log_level"]) == ("policy refused, the old one stays", "warning")
    assert reason in line["reason"]
    watched.path.write_text(POOLS + TENANT.format(1))
    assert watched.seconds() == []
    assert watched.refused == 0


def test_a_file_that_is_gone_changes_nothing_and_is_told(watched: Watched) -> None:
    text = watched.path.read_text()
    watched.path.unlink()
    with capture_logs() as logs:
        assert watched.seconds(5) == []
    assert [line["event"] for line in logs] == ["policy refused, the old one stays"]
    assert (watched.refused, watched.weight) == (1, 1)
    watched.path.write_text(text)
    assert watched.seconds() == []
    assert watched.refused == 0


def test_a_link_to_another_folder_is_followed_as_kubernetes_swaps_it(tmp_path: Path) -> None:
    """A ConfigMap: the file is a link into `..data`, itself a link that is replaced by another in one step."""
    for number in (1, 2):
        (tmp_path / f"..{number}").mkdir()
        (tmp_path / f"..{number}" / "policy.toml").write_text(POOLS + TENANT.format(number))
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "policy.toml").symlink_to("..data/policy.toml")
    made = Watched(tmp_path / "policy.toml")
    made.seconds()
    (tmp_path / "..new").symlink_to("..2")
    (tmp_path / "..new").rename(tmp_path / "..data")
    assert len(made.seconds()) == 1
    assert made.weight == 2


@pytest.fixture
def hangups() -> Iterator[None]:
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangups")
def test_sighup_has_it_read_at_once_and_told_again(watched: Watched) -> None:
    watched.watch.listen()
    watched.path.write_text(POOLS + TENANT.format(2))
    os.kill(os.getpid(), signal.SIGHUP)
    assert watched.watch.turn() is not None
    with capture_logs() as logs:
        os.kill(os.getpid(), signal.SIGHUP)
        assert watched.watch.turn() is None
        watched.path.write_text("nonsense")
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGHUP)
            assert watched.watch.turn() is None
    assert [line["event"] for line in logs] == ["policy unchanged"] + [
        "policy refused, the old one stays"
    ] * 2


def test_without_a_file_there_is_nothing_to_watch() -> None:
    watch = PolicyWatch(None, Policy(pools={}), clock=ManualClock(), metrics=Metrics("test"))
    watch.ask()
    assert watch.turn() is None


class Plain:
    """A service that notes what it is told."""

    name = "plain"

    def __init__(self) -> None:
        self.told: list[str] = []

    def adopt(self, policy: Policy) -> None:
        self.told.append(f"adopt {policy.tenants['acme'].weight}")

    def start(self) -> None:
        self.told.append("start")

    def turn(self) -> None:
        self.told.append("turn")

    def drain(self) -> bool:
        self.told.append("drain")
        return True

    def stop(self) -> None:
        self.told.append("stop")


@pytest.mark.usefixtures("hangups")
def test_a_service_adopts_between_two_of_its_turns(watched: Watched) -> None:
    service = Plain()
    following = FollowingPolicy(service, watched.watch)
    following.start()
    following.turn()
    watched.path.write_text(POOLS + TENANT.format(4))
    watched.watch.ask()
    following.turn()
    assert following.drain()
    following.stop()
    assert following.name == "plain"
    assert service.told == ["start", "turn", "adopt 4", "turn", "drain", "stop"]


BIG = '[pools.big.models]\nn = "n"\n'


def test_a_pool_that_comes_waits_for_its_topics_and_then_takes_effect_by_itself(watched: Watched) -> None:
    watched.lacks = "the topic work.big is missing: run `headrace topics apply`"
    watched.path.write_text(POOLS + TENANT.format(1) + BIG)
    with capture_logs() as logs:
        eventually(lambda: not watched.seconds(1) and watched.looks >= 3, "it looks again and again")
        assert watched.refused == 1
        watched.lacks = None
        eventually(lambda: bool(watched.seconds(1)), "it holds")
    assert set(watched.watch.policy.pools) == {"small", "big"}
    assert watched.refused == 0
    refused, changed = logs
    assert refused["reason"] == f"pools.big: {'the topic work.big is missing: run `headrace topics apply`'}"
    assert changed["event"] == "policy changed"
    watched.lacks = "nobody asks"
    looks = watched.looks
    watched.path.write_text(POOLS + TENANT.format(1))
    assert len(watched.seconds()) == 1, "what goes needs no topics"
    assert watched.looks == looks


def test_a_file_that_is_put_back_while_topics_are_missing_is_refused_no_more(watched: Watched) -> None:
    old = watched.path.read_text()
    watched.lacks = "no broker"
    watched.path.write_text(POOLS + TENANT.format(1) + BIG)
    eventually(lambda: not watched.seconds(1) and watched.refused == 1, "it is refused")
    watched.path.write_text(old)
    eventually(lambda: not watched.seconds(1) and watched.refused == 0, "the old one holds")
    assert set(watched.watch.policy.pools) == {"small"}
