"""Reads the policy file again when it changes, and on SIGHUP. Turned by each service between two of its steps.

Invariant: what is in force is always one whole policy that was found to be right; what is wrong with a newer file is told
once, in the log, and for as long as it is so by the metric `policy_refused`. A file is believed only when it was the same at
two looks, a second apart: whoever writes it slowly is waited for. Pools and tiers that come wait for their topics.
"""

import asyncio
import hashlib
import signal
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Protocol

from headrace.contracts.durations import ms
from headrace.contracts.policy import Policy
from headrace.contracts.policy_changes import comes, needs_a_restart
from headrace.runtime.clock import Clock
from headrace.runtime.logging import get_logger
from headrace.runtime.loop_supervisor import LoopService
from headrace.runtime.metrics import Metrics
from headrace.runtime.policy_file import PolicyError, load_policy

PERIOD = timedelta(seconds=1)

_Stamp = tuple[int, int, int, int, int] | None
"""What tells one state of a file from another, through all links; None: nobody has looked yet."""
_GONE: _Stamp = (0, 0, 0, 0, 0)


Lacks = Callable[[Policy], str | None]
"""What the brokers lack for a policy, in a sentence; None: nothing. May take seconds, and is asked in a thread of its own."""


class _Looked:
    """What the brokers lack for a policy that something was added to. Asked once; `done` when it is answered."""

    def __init__(self, policy: Policy, added: list[str], lacks: Lacks) -> None:
        self.policy, self._added, self._lacks = policy, added, lacks
        self._sentence: str | None = None
        self._thread = threading.Thread(target=self._look, name="policy", daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Whether there is an answer."""
        return not self._thread.is_alive()

    @property
    def sentences(self) -> tuple[str, ...]:
        """Why it can't hold yet; none when it can."""
        return () if self._sentence is None else (f"{', '.join(self._added)}: {self._sentence}",)

    def _look(self) -> None:
        try:
            self._sentence = self._lacks(self.policy)
        except Exception as error:  # noqa: BLE001 - whatever went wrong, it isn't known that they are there
            self._sentence = f"its topics couldn't be looked at: {error}"


class PolicyMetrics:
    """What every service tells of its policy."""

    def __init__(self, metrics: Metrics) -> None:
        self.refused = metrics.gauge(
            "policy_refused", "1 while the policy file is wrong, so that an older one is in force."
        )
        self.changes = metrics.counter("policy_changes_total", "Policies that took effect since the start.")


class PolicyWatch:
    """One service's eye on its policy file. `policy`: what is in force."""

    def __init__(
        self,
        path: Path | None,
        policy: Policy,
        *,
        clock: Clock,
        metrics: Metrics,
        lacks: Lacks = lambda _policy: None,
    ) -> None:
        self._path, self.policy, self._clock = path, policy, clock
        self._lacks = lacks
        self._looked: _Looked | None = None
        self._log = get_logger("policy")
        self._metrics = PolicyMetrics(metrics)
        self._judged: _Stamp = None  # what was read before may have changed by now
        self._seen: _Stamp = None
        self._told: tuple[str, ...] = ()
        self._look_ms, self._asked = clock.now().boot_ms, False

    def listen(self) -> None:
        """Take SIGHUP for a wish to look at once. Call in the main thread."""

        def told(_number: int, _frame: FrameType | None) -> None:
            self.ask()

        signal.signal(signal.SIGHUP, told)

    def ask(self) -> None:
        """Somebody wants the file to be read now, changed or not."""
        self._asked = True

    def turn(self) -> Policy | None:
        """The policy that is in force from now on; None: it is the one that was. Looks no more often than once a second."""
        now_ms = self._clock.now().boot_ms
        if self._path is not None and self._looked is not None:
            return self._after_looking(self._path, self._looked)
        if self._path is None or (now_ms < self._look_ms and not self._asked):
            return None
        asked, self._asked = self._asked, False
        self._look_ms = now_ms + ms(PERIOD)
        stamp, before = _stamp_of(self._path), self._seen
        self._seen = stamp
        if not asked and (stamp == self._judged or stamp != before):
            return None
        self._judged = stamp
        return self._judge(self._path, asked=asked)

    def _judge(self, path: Path, *, asked: bool) -> Policy | None:
        try:
            policy = load_policy(path)
            sentences: tuple[str, ...] = tuple(needs_a_restart(self.policy, policy))
        except PolicyError as error:
            policy, sentences = self.policy, error.sentences
        if not sentences and (added := comes(self.policy, policy)):
            self._looked = _Looked(policy, added, self._lacks)
            return None
        return self._decide(path, policy, sentences, asked=asked)

    def _after_looking(self, path: Path, looked: _Looked) -> Policy | None:
        """What the brokers lack may come without a change of the file, so that is looked at again."""
        if not looked.done:
            return None
        self._looked = None
        if looked.sentences:
            self._judged = None
        return self._decide(path, looked.policy, looked.sentences, asked=False)

    def _decide(
        self, path: Path, policy: Policy, sentences: tuple[str, ...], *, asked: bool
    ) -> Policy | None:
        self._metrics.refused.set(bool(sentences))
        if sentences:
            if asked or sentences != self._told:
                self._log.warning(
                    "policy refused, the old one stays", file=str(path), reason="; ".join(sentences)
                )
            self._told = sentences
            return None
        self._told = ()
        if policy == self.policy:
            if asked:
                self._log.info("policy unchanged", file=str(path))
            return None
        self.policy = policy
        self._metrics.changes.inc()
        self._log.info("policy changed", file=str(path), sha256=_digest(path))
        return policy


class TakesPolicy(LoopService, Protocol):
    """A service with a plain loop to which another policy can be given between two turns."""

    def adopt(self, policy: Policy) -> None:
        """It is in force from now on."""
        ...


class FollowingPolicy:
    """Such a service, with its eye on the policy file."""

    def __init__(self, service: TakesPolicy, watch: PolicyWatch) -> None:
        self._service, self._watch = service, watch
        self.name = service.name

    def start(self) -> None:
        """As the service's."""
        self._watch.listen()
        self._service.start()

    def turn(self) -> None:
        """As the service's, with the policy that is in force now."""
        policy = self._watch.turn()
        if policy is not None:
            self._service.adopt(policy)
        self._service.turn()

    def drain(self) -> bool:
        """As the service's."""
        return self._service.drain()

    def stop(self) -> None:
        """As the service's."""
        self._service.stop()


async def follow(watch: PolicyWatch, adopt: Callable[[Policy], None]) -> None:
    """The same for an asyncio service, for as long as it runs. `adopt` is called between two of its steps."""
    while True:
        policy = watch.turn()
        if policy is not None:
            adopt(policy)
        await asyncio.sleep(PERIOD.total_seconds())


def _stamp_of(path: Path) -> _Stamp:
    try:
        found = path.stat()
    except OSError:
        return _GONE
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _digest(path: Path) -> str:
    """By which an operator sees that all replicas have the same; empty where the file is gone again."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    except OSError:
        return ""
