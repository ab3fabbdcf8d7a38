"""Two workers, each with a cache, and requests that go on with others' prompts. Used by tests of hints."""

from dataclasses import replace
from typing import Any

from headrace.bus.messages import message_of
from headrace.contracts.commands import Run
from headrace.contracts.ids import boot_id
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.policy import Policy
from headrace.contracts.prefixes import HASH_CHARACTERS
from headrace.contracts.reports import Report
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Times, Usage
from headrace.scheduler.decisions.when_to_pause import Window
from tests.support.scheduler import case as by_hand
from tests.support.scheduler.pure import WALL, place
from tests.support.scheduler.reports import held_of

BOOTS = {name: boot_id(WALL, bytes([number]) + bytes(9)) for number, name in enumerate("vw")}
HOUR: dict[str, Any] = {"start_by_ms": WALL + 3_600_000}
BLOCK_TOKENS = 512


def prefix(*names: str) -> str:
    """A prompt with so many hashed beginnings, each named; of the same names the same."""
    return "".join(name.ljust(HASH_CHARACTERS, "_") for name in names)


class Case(by_hand.Case):
    """One owner, and workers v and w."""

    def __init__(self, limit: int = 8, policy: Policy | None = None) -> None:
        super().__init__(policy)
        self.owner.setting = replace(self.owner.setting, window=Window())
        self.limit, self.over = limit, set[str]()
        self.tell()
        self.run(200)
        self.tell()
        self.run(200)

    def tell(self, *names: str) -> None:
        """These report, or both."""
        position = len(self.world.logs[place(TopicKind.WORK, 0)])
        for name in names or BOOTS:
            held = tuple(held_of(run) for run in self.of(name))
            report = Report(
                worker=name, boot=BOOTS[name], epoch=1, lane=0, position=position, limit=self.limit, held=held
            )
            self.world.append(message_of(place(TopicKind.WORKERS), report))

    def of(self, name: str) -> list[Run]:
        """What this worker has in its hands."""
        runs = self.commands(Run)
        return [run for run in runs if run.boot == BOOTS[name] and run.request.id not in self.over]

    def sent(self, **more: Any) -> str:
        """A request comes; the worker it is given to, or an empty text if it isn't soon."""
        record = self.submit(**{**HOUR, **more})
        for _ in range(20):
            self.run(25)
            if found := self.where(record.id):
                return found
        return ""

    def where(self, request_id: str) -> str:
        """The worker that a request was given to last."""
        boots = [run.boot for run in self.commands(Run) if run.request.id == request_id]
        return next((name for name, boot in BOOTS.items() if boots and boot == boots[-1]), "")

    def end(self, run: Run, *, cached: int = 0, prompt: int = 8 * BLOCK_TOKENS) -> None:
        """It has ended well."""
        self.over.add(run.request.id)
        now = self.world.now.wall_ms
        times = Times(started_ms=now - 100, first_token_ms=now - 50, finished_ms=now)
        usage = Usage(prompt_tokens=prompt, cached_tokens=cached, completion_tokens=1)
        self.answer(run, Verdict.DONE, status=Status.SUCCEEDED, boot=run.boot, usage=usage, times=times)
