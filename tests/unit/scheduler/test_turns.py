"""Turns are what a search over all tenants finds; who was passed over is lifted by what others were served beyond it."""

from dataclasses import dataclass
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from headrace.scheduler.decisions.pick_next import most_in_flight
from headrace.scheduler.state.account import Account
from headrace.scheduler.state.tenant_queue import TenantQueue
from headrace.scheduler.state.turns import Turns

WEIGHTS = {"a": 1, "b": 1, "c": 2, "d": 5, "e": 1, "f": 3}


@dataclass
class Known:
    """One tenant as the search knows it. `passed_at`: its counter when it was passed over, till it is looked at again;
    `outdone`: somebody has been served since then.
    """

    counter: int = 0
    in_flight: int = 0
    passed_at: int | None = None
    outdone: bool = False
    unread: bool = False


class Both:
    """Turns, and the search beside them."""

    def __init__(self) -> None:
        self.accounts = {name: Account(Fraction(weight)) for name, weight in WEIGHTS.items()}
        self.moved: dict[str, None] = {}
        self.turns = Turns(self.moved, self.lift)
        self.known: dict[str, Known] = {}
        self.served = 0
        self.charges: dict[str, list[int]] = {name: [] for name in WEIGHTS}

    def lift(self, name: str, by: int) -> None:
        """As the accounts do it."""
        self.accounts[name].settled += by

    @property
    def weight(self) -> int:
        """Of all who wait."""
        return sum(WEIGHTS[name] for name in self.known)

    def enter(self, name: str) -> None:
        """It waits from now on."""
        if name not in self.known:
            own = self.accounts[name]
            self.known[name] = Known(own.value, own.in_flight)
            self.turns.enter(name, TenantQueue(own, WEIGHTS[name]))

    def leave(self, name: str) -> None:
        """It waits no longer."""
        if self.known.pop(name, None) is not None:
            self.turns.leave(name)

    def pick(self, slots: int, cost: int) -> None:
        """Whose turn it is gets a slot, and goes over its part where nobody else could."""
        chosen = self.search(slots)
        assert self.turns.least(self.weight, slots) == chosen
        if chosen is None and any(each.passed_at is not None for each in self.known.values()):
            for each in self.known.values():
                self.look_at(each)
            assert self.turns.let_all_back()
            chosen = self.search(None)
            assert self.turns.least(self.weight, None) == chosen
        if chosen is not None:
            assert self.accounts[chosen].value == self.known[chosen].counter
            self.served = self.known[chosen].counter
            for each in self.known.values():
                each.outdone = True
            self.turns.serve(chosen)
            self.accounts[chosen].charge(cost)
            self.charges[chosen].append(cost)
            self.move(chosen, self.accounts[chosen].step_of(cost), in_flight=1)

    def end(self, name: str, spent: int) -> None:
        """Its oldest attempt ends."""
        if self.charges[name]:
            cost, own = self.charges[name].pop(0), self.accounts[name]
            own.refund(cost)
            own.settle(spent)
            self.move(name, own.step_of(spent) - own.step_of(cost), in_flight=-1)

    def move(self, name: str, by: int, in_flight: int) -> None:
        """Its counter moves, and so it is looked at again."""
        self.moved[name] = None
        if name in self.known:
            own = self.known[name]
            self.look_at(own)
            own.counter += by
            own.in_flight += in_flight
            own.unread = False

    def look_at(self, own: Known) -> None:
        """It takes turns again, lifted."""
        own.counter, own.passed_at = own.counter + self.due(own), None

    def due(self, own: Known) -> int:
        """What it is to be lifted by."""
        return 0 if own.passed_at is None or not own.outdone else max(0, self.served - own.passed_at)

    def is_over(self, name: str, slots: int | None) -> bool:
        """Whether it has its part of the slots."""
        most = None if slots is None else most_in_flight(WEIGHTS[name], self.weight, slots)
        return most is not None and self.known[name].in_flight >= most

    def search(self, slots: int | None) -> str | None:
        """The least counter of those who may be served; those before it are passed over."""
        for name, own in self.known.items():
            if slots is not None and not self.is_over(name, slots):
                self.look_at(own)
        here = [
            (own.counter, name)
            for name, own in self.known.items()
            if own.passed_at is None and not own.unread
        ]
        for counter, name in sorted(here):
            if not self.is_over(name, slots):
                return name
            self.known[name].passed_at, self.known[name].outdone = counter, False
        return None

    def must_be_read(self, slots: int) -> None:
        """Whose turn it is isn't in memory."""
        chosen = self.search(slots)
        assert self.turns.least(self.weight, slots) == chosen
        if chosen is not None:
            self.known[chosen].unread = True
            self.turns.must_be_read(chosen)

    def look_again(self) -> None:
        """All are in memory."""
        self.turns.look_again()
        for own in self.known.values():
            own.unread = False

    def checkpoint(self) -> None:
        """Counters say what is due; turns stay what they are."""
        self.turns.lift_all()
        for name, own in self.known.items():
            due = self.due(own)
            if own.passed_at is not None:
                own.counter, own.passed_at = own.counter + due, own.passed_at + due
            if due and own.passed_at is not None:
                assert self.accounts[name].value == own.counter

    def agree(self) -> None:
        """What is told of counters."""
        for name, own in self.known.items():
            due = self.turns.lift_due(name)
            assert self.accounts[name].value + due == own.counter + self.due(own)

    def newcomers(self) -> None:
        """Where they begin: at the least counter of those who may be served, or of all where none may."""
        self.look_again()
        here = [each.counter for each in self.known.values() if each.passed_at is None]
        over = [each.counter + self.due(each) for each in self.known.values()]
        assert self.turns.floor() == min(here or over, default=None)


names, costs, slots = st.sampled_from(sorted(WEIGHTS)), st.integers(0, 9), st.integers(1, 9)
steps = st.one_of(
    st.tuples(st.just("enter"), names),
    st.tuples(st.just("leave"), names),
    st.tuples(st.just("pick"), slots, costs),
    st.tuples(st.just("end"), names, costs),
    st.tuples(st.just("must_be_read"), slots),
    st.tuples(st.just("look_again")),
    st.tuples(st.just("checkpoint")),
    st.tuples(st.just("newcomers")),
)


@given(st.lists(steps, min_size=40, max_size=160))
def test_turns_are_what_a_search_over_all_finds(story: list[tuple[str, ...]]) -> None:
    both = Both()
    for name in "abcd":
        both.enter(name)
    for step, *arguments in story:
        getattr(both, step)(*arguments)
        both.agree()


def over_its_part() -> Both:
    """`a` has its only slot of four, and `b` has been served three times beyond it."""
    both = Both()
    for name in "abc":
        both.enter(name)
    both.pick(2, 1)
    assert both.charges["a"] == [1]
    for _ in range(6):
        both.pick(2, 4)
        for name in "bc":
            both.end(name, 4)
    return both


def test_who_was_passed_over_is_served_as_soon_as_the_limit_rises() -> None:
    both = over_its_part()
    assert list(both.turns.those_over()) == ["a"]
    both.leave("b")
    both.leave("c")
    assert both.turns.least(both.weight, 2) == "a", "though nothing of its own has moved"


def test_who_was_passed_over_has_no_credit_for_that_and_keeps_what_an_attempt_cost_less() -> None:
    both = over_its_part()
    both.end("a", 0)
    both.turns.least(both.weight, 2)
    assert both.accounts["a"].value == both.served - 1, "lifted to who was served, less its own refund"


def test_nobody_is_lifted_for_what_was_served_before_it_was_passed_over() -> None:
    """`a` was served at 18, then slots were lost, `b` turned out cheap, and `c` has to be read again."""
    both = Both()
    for name in "abc":
        both.enter(name)
    for whose in "abcaba":
        assert both.search(8) == whose
        if whose == "c":
            both.must_be_read(8)
        else:
            both.pick(8, 9)
    both.end("b", 0)
    assert (both.served, both.accounts["a"].value, both.accounts["b"].value) == (18, 27, 9)
    both.pick(1, 1)
    assert both.accounts["b"].value == 10, "the least of those who have their part, and not lifted"


def test_who_is_left_over_is_looked_at_as_soon_as_the_limit_passes_the_first_of_them() -> None:
    """`a`, `b` and `e` have 1, 2 and 3 slots, which are let back in this order."""
    both = Both()
    for name in "fabe":
        both.enter(name)
    for whose, cost in (("a", 9), ("b", 5), ("e", 1), ("f", 60), ("e", 1), ("e", 9), ("b", 9)):
        assert both.search(9) == whose
        both.pick(9, cost)
    both.end("f", 60)
    both.pick(1, 0)
    assert sorted(both.turns.those_over()) == ["a", "b", "e"]
    both.pick(6, 9)
    assert sorted(both.turns.those_over()) == ["b", "e"]
    both.leave("a")
    both.pick(6, 0)
    assert sorted(both.turns.those_over()) == ["e"]


def test_long_runs_leave_no_more_entries_than_tenants_need() -> None:
    both = Both()
    for name in "abc":
        both.enter(name)
    for turn in range(1_000):
        both.pick(4, turn % 5)
        for name in "abc":
            both.end(name, turn % 3)
    assert len(both.turns._heap) <= 4 * len(both.known) + 64
