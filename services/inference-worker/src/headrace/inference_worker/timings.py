"""How long the worker's protocol waits for what. Built by wiring from the settings; tests shorten it.

Invariant: the owner's own timings (headrace.scheduler.timings) rest on these defaults: change both or neither.
"""

from dataclasses import dataclass
from datetime import timedelta

_S = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Timings:
    """`lapse_after`, `give_up_after`: age of the last acknowledged report, from its begin.

    `resend_after`: pause before a write of unknown or refused delivery is sent again. `leave_within`: how long, after the
    drain's grace, a stopping worker tries to say goodbye. `turn`: the longest that the loop waits for an input.
    `silent_after`: a worker silent for longer counts as gone when a lane is picked.
    """

    report_every: timedelta = 0.5 * _S
    lapse_after: timedelta = 2.5 * _S
    give_up_after: timedelta = 30 * _S
    ping_every: timedelta = 1 * _S
    ping_back_within: timedelta = 5 * _S
    paused_after: timedelta = 1 * _S
    resend_after: timedelta = 0.25 * _S
    look_again_after: timedelta = 1 * _S
    drain_grace: timedelta = 30 * _S
    leave_within: timedelta = 5 * _S
    turn: timedelta = 0.05 * _S
    silent_after: timedelta = 10 * _S
    probe_every: timedelta = 2 * _S
    sample_every: timedelta = 1 * _S
    """Between two looks at the backend's metrics."""
