"""Keeps the deaths of workers and engines, who is suspected of them, and who is the killer. Called by core.returning.

Invariant: a fold over what attempts came to; all of it but `did_well` is in the checkpoint, so that a search for a killer
goes on under the next owner where it stands.
"""

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from headrace.contracts.checkpoints import Retrying
from headrace.contracts.deaths import SUSPECTS_NAMED, Death
from headrace.contracts.failures import FailureKind, rule_of
from headrace.contracts.ids import AttemptId
from headrace.contracts.values import Origin, cut_sentence
from headrace.scheduler.core.counted import Counted
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.decisions.which_text_is_kept import Text
from headrace.scheduler.decisions.who_is_suspect import is_cleared, is_same_death, must_be_apart
from headrace.scheduler.decisions.who_is_the_killer import is_killer


class Left(NamedTuple):
    """A text that an attempt left, and its bytes as they are stored."""

    text: Text
    stored: bytes


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """An attempt that came to no end of its request. `worker`, `boot`: who had it; `at_ms` (Unix): when it failed.

    `at_least_ms`: how long its backend asked to be spared. `left`: the text that it had, when headrace stopped it.
    """

    id: str
    tenant: str
    origin: Origin
    attempt: AttemptId
    attempts: int
    kind: FailureKind | None
    started: bool
    at_ms: int
    at_least_ms: int = 0
    worker: str = "unknown"
    boot: str = ""
    trial: int = 0
    message: str = ""
    left: Left | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """The case against a request after an attempt: of which deaths it is suspect, with whom it must run, if it is guilty."""

    deaths: tuple[str, ...] = ()
    group: str | None = None
    guilty: bool = False


class Suspicion:
    """Who is suspected of what."""

    def __init__(self, state: PoolState) -> None:
        self._state = state

    def case_of(self, failed: FailedAttempt) -> Case:
        """The case against its request after a failed attempt."""
        before = self._state.retrying.get(failed.id)
        known = Case() if before is None else Case(before.deaths, before.group)
        if failed.kind is None:
            return known
        if rule_of(failed.kind).suspect and failed.started:
            return self._blamed(failed, known)
        cleared = is_cleared(failed.kind, started=failed.started, trial=failed.trial)
        return Case() if cleared else known

    def keep(self, request_id: str, case: Case) -> None:
        """Let it run with its group alone, or like any other."""
        if case.group is None:
            self._state.suspects.leave(request_id)
        elif self._state.suspects.group_of.get(request_id) != case.group:
            self._state.suspects.join(request_id, case.group)

    def did_well(self, worker: str | None) -> None:
        """Something ended well there: it isn't the worker that is broken."""
        if worker is not None:
            self._state.suspects.did_well.add(worker)

    def acquit(self, boot: str) -> list[str]:
        """This boot didn't die after all: nobody is suspected of it. The ids that are no longer kept apart."""
        state, freed = self._state, list[str]()
        if state.suspects.deaths.pop(boot, None) is None:
            return freed
        state.dirty.add(f"death/{boot}")
        for record in [each for each in state.retrying.values() if boot in each.deaths]:
            left = tuple(key for key in record.deaths if key != boot)
            group = record.group if must_be_apart(len(left)) else None
            if group is None and record.group is not None:
                state.suspects.leave(record.id)
                freed.append(record.id)
            self._write(msgspec.structs.replace(record, deaths=left, group=group, suspect=bool(left)))
        return freed

    def _blamed(self, failed: FailedAttempt, known: Case) -> Case:
        suspects = self._state.suspects
        death = self._joined(failed, known.deaths)
        deaths = (*known.deaths, death.key)
        own = [suspects.deaths[key] for key in deaths if key in suspects.deaths]
        guilty = is_killer(
            own,
            suspects.deaths.values(),
            did_well=failed.worker in suspects.did_well,
            wall_ms=self._state.now.wall_ms,
        )
        suspects.did_well.discard(failed.worker)
        if guilty:
            for each in own:
                self._put(msgspec.structs.replace(each, killer=failed.id))
        return Case(deaths, death.key if must_be_apart(len(deaths)) else None, guilty)

    def _joined(self, failed: FailedAttempt, known: tuple[str, ...]) -> Death:
        """The death that this is due to, with one suspect more."""
        death = self._known_death(failed, known) or self._new_death(failed)
        named = death.suspects
        if len(named) < SUSPECTS_NAMED:
            named = (*named, failed.id)
        return self._put(msgspec.structs.replace(death, held=death.held + 1, suspects=named))

    def _known_death(self, failed: FailedAttempt, known: tuple[str, ...]) -> Death | None:
        found = [
            death
            for death in self._state.suspects.deaths.values()
            if is_same_death(
                death,
                boot=failed.boot,
                kind=failed.kind or FailureKind.WORKER_DIED,
                at_ms=failed.at_ms,
                trial=failed.trial,
                known=known,
            )
        ]
        return found[-1] if found else None

    def _new_death(self, failed: FailedAttempt) -> Death:
        state, kind = self._state, failed.kind or FailureKind.WORKER_DIED
        key = failed.boot
        if kind is not FailureKind.WORKER_DIED or key in state.suspects.deaths:
            key = f"{failed.boot}#{failed.attempt}"
        state.count(Counted.DEATHS)
        state.notice(
            "a death made suspects", warning=True, worker=failed.worker, boot=failed.boot, kind=kind,
            trial=failed.trial, reason=failed.message or None,
        )  # fmt: skip
        return Death(
            key=key,
            at_ms=failed.at_ms,
            worker=failed.worker,
            boot=failed.boot,
            kind=kind,
            trial=failed.trial,
            message=cut_sentence(failed.message),
        )

    def _put(self, death: Death) -> Death:
        self._state.suspects.deaths[death.key] = death
        self._state.dirty.add(f"death/{death.key}")
        return death

    def _write(self, record: Retrying) -> None:
        self._state.retrying[record.id] = record
        self._state.dirty.add(f"retrying/{record.id}")
