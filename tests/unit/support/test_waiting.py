from datetime import timedelta

import pytest

from tests.support.eventually import eventually, eventually_without
from tests.support.turned import turned

MOMENT = timedelta(milliseconds=100)


class LostError(Exception):
    """What a turn may raise."""


def lost() -> None:
    raise LostError


def test_what_ends_the_thread_ends_the_wait_and_is_what_is_told() -> None:
    with pytest.raises(LostError), turned(lost) as well:
        eventually(lambda: well() and False, "what can't come any more")


def test_what_ends_the_thread_is_told_where_nobody_asked() -> None:
    with pytest.raises(LostError) as told, turned(lost):
        eventually(bool, "what can't come any more", MOMENT)
    assert isinstance(told.value.__context__, AssertionError)


def test_turns_are_called_in_turn_until_the_block_ends() -> None:
    called: list[str] = []
    with turned(lambda: called.append("a"), lambda: called.append("b")) as well:
        eventually(lambda: well() and len(called) >= 6, "some turns")
    assert called == ["a", "b"] * (len(called) // 2)


def test_a_call_is_repeated_while_it_raises_what_may_pass_and_the_last_such_is_the_cause() -> None:
    tries: list[int] = []

    def third_time() -> str:
        tries.append(1)
        if len(tries) < 3:
            lost()
        return "well"

    assert eventually_without(LostError, third_time, "a call") == "well"
    with pytest.raises(AssertionError, match="a call") as told:
        eventually_without(LostError, lost, "a call", MOMENT)
    assert isinstance(told.value.__cause__, LostError)
    with pytest.raises(LostError):
        eventually_without(KeyError, lost, "a call")
