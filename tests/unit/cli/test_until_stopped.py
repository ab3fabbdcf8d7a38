"""Ctrl-C: the first ends things in order, the second does nothing."""

import os
import signal
import threading

import pytest

from headrace.cli.until_stopped import Interrupted, Stopped, until_stopped
from tests.support.eventually import eventually


def test_the_first_signal_interrupts_work_and_the_second_does_not() -> None:
    stopped = Stopped()
    stopped.eager = True
    with pytest.raises(Interrupted):
        stopped.tell()
    stopped.tell()
    assert stopped.told


def test_nothing_is_interrupted_while_things_are_being_stopped() -> None:
    stopped = Stopped()
    stopped.eager = True
    stopped.calm()
    stopped.tell()
    stopped.wait()


def test_a_signal_ends_the_wait_and_a_further_one_is_ignored() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with until_stopped() as stopped:
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
            stopped.wait()
        os.kill(os.getpid(), signal.SIGINT)
        eventually(lambda: signal.getsignal(signal.SIGINT) is signal.SIG_IGN, "a second Ctrl-C is ignored")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
