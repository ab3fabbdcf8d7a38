"""Tells an operator which requests fit what was asked: how many, and the oldest of them. Called by core.control_log.

Invariant: changes nothing; however many there are, a step looks at a bounded number of requests, and an answer names a
bounded number of them.
"""

from collections import Counter, deque
from heapq import heappush, heappushpop

from headrace.contracts.control import MoveMatching, Query
from headrace.contracts.selections import Find, Found, FoundRequest, Selection, Stage, Stays
from headrace.scheduler.core.answering import Answering
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.rerouting import Rerouting
from headrace.scheduler.core.walking import Walk
from headrace.scheduler.decisions.does_it_fit import Facts, end_in
from headrace.scheduler.decisions.pick_next import priority_of

LOOKS = 500
"""Requests in one step: some milliseconds."""
_MOST_QUESTIONS = 16
"""At a time: whoever asks more gets no answer, and asks again."""


class _Question:
    """One that is being answered. `oldest`: a heap of the oldest that fit, the youngest of them first."""

    def __init__(self, state: PoolState, query: Query, find: Find) -> None:
        self.query, self.find = query, find
        self.walk = Walk(state, find.selection)
        self.count = dict.fromkeys(Stage, 0)
        self.of_other_priority = self.may_go = 0
        self.stay: Counter[Stays] = Counter()
        self.oldest: list[tuple[int, str]] = []

    def take(self, facts: Facts) -> None:
        """One that fits."""
        if facts.stage is None:
            return  # its end is under way
        self.count[facts.stage] += 1
        self.of_other_priority += facts.priority != self.find.priority
        entry = (-facts.accepted_ms, facts.id)
        if len(self.oldest) < self.find.most:
            heappush(self.oldest, entry)
        elif self.find.most:
            heappushpop(self.oldest, entry)


class Finding:
    """All questions that aren't answered yet, one after the other."""

    def __init__(self, state: PoolState, answering: Answering, rerouting: Rerouting) -> None:
        self._state, self._answering, self._rerouting = state, answering, rerouting
        self._questions: deque[_Question] = deque()

    @property
    def under_way(self) -> bool:
        """Whether anybody waits for an answer."""
        return bool(self._questions)

    def ask(self, query: Query, find: Find) -> None:
        """A question that was just read. Who asks again, since it takes long, is answered once."""
        known = any(each.query.nonce == query.nonce for each in self._questions)
        if not known and len(self._questions) < _MOST_QUESTIONS:
            self._questions.append(_Question(self._state, query, find))

    def turn(self) -> None:
        """Look at some more; answer what is known."""
        if not self._questions:
            return
        question = self._questions[0]
        for facts in question.walk.step(LOOKS):
            question.take(facts)
            if question.find.to is not None and facts.stage is Stage.QUEUED:
                self._look_whether_it_may_go(question, facts, question.find.to)
        if question.walk.over:
            self._questions.popleft()
            self._answering.found(question.query, self._found(question))

    def _found(self, question: _Question) -> Found:
        oldest = sorted(question.oldest, reverse=True)
        named = [self._named(request_id) for _, request_id in oldest]
        return Found(
            queued=question.count[Stage.QUEUED],
            running=question.count[Stage.RUNNING],
            requests=tuple(each for each in named if each is not None),
            unread_partitions=self._unread(question.find.selection),
            may_go=None if question.find.to is None else question.may_go,
            stay=dict(question.stay),
            moved=self._moved(question.find),
            of_other_priority=None if question.find.priority is None else question.of_other_priority,
        )

    def _look_whether_it_may_go(self, question: _Question, facts: Facts, to: str) -> None:
        if self._rerouting.model_there(facts, to, question.find.model) is not None:
            question.may_go += 1
        else:
            question.stay[self._rerouting.why_not(facts, to)] += 1

    def _moved(self, find: Find) -> int | None:
        """By the order in the same words, which names the ends of logs: so it is hardly another one's."""
        if find.to is None:
            return None
        asked, moves = (
            MoveMatching(selection=find.selection, to=find.to, model=find.model),
            self._state.bulk_moves,
        )
        return next((move.done for move in (*moves, *reversed(moves.over)) if move.order == asked), None)

    def _named(self, request_id: str) -> FoundRequest | None:
        """None: it has ended meanwhile."""
        tracked = self._state.tracked.look(request_id)
        if tracked is None:
            return None
        record, running = tracked.record, self._state.held.of(request_id) is not None
        return FoundRequest(
            id=record.id,
            tenant=record.tenant,
            tier=record.tier,
            model=record.model,
            stage=Stage.RUNNING if running else Stage.QUEUED,
            accepted_ms=record.accepted_ms,
            priority=priority_of(tracked.order),
            cost=tracked.charge,
            attempts=tracked.used,
        )

    def _unread(self, selection: Selection) -> int:
        before = selection.stands_before
        paused = (each for each in self._state.partitions.by_place.values() if each.paused)
        return sum(
            selection.tier in (None, each.tier)
            and (before is None or each.next_offset < end_in(before, *each.place))
            for each in paused
        )
