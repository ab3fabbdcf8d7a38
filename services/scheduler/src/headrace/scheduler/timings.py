"""The periods and patiences of the protocol that hang together, in one place. Handed to the core and the loop.

What concerns one decision or one part alone stands beside it. Invariant: production uses the defaults; tests may shorten them
all in proportion.
"""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Timings:
    """Defaults are the protocol's. `lease`: no terminal record when the last committed checkpoint began longer ago."""

    checkpoint: timedelta = timedelta(seconds=1)
    lease: timedelta = timedelta(seconds=2)
    silent: timedelta = timedelta(seconds=3)
    rank_step: timedelta = timedelta(seconds=2)
    tick: timedelta = timedelta(milliseconds=500)
    repeat: timedelta = timedelta(seconds=1)
    """Fences, cancels, `buried` and pings are sent again, or at most once, in this time."""
    deaf: timedelta = timedelta(seconds=15)
    """A boot is buried whose read position hasn't passed a command acknowledged this long ago."""
    delivery: timedelta = timedelta(seconds=1)
    """A send is confirmed or unknown by then; an owner that lost its pool writes nothing after it."""
    sweep: timedelta = timedelta(milliseconds=50)
    """Between two looks at pending cancels."""
    resume: timedelta = timedelta(seconds=1)
    """A paused partition stays so for this long at least: pausing throws fetched data away."""
    observe: timedelta = timedelta(seconds=1)
    """Between two records on `queue-state`."""
    look_at_topics: timedelta = timedelta(seconds=2)
    """Between two looks whether a topic was made anew under the pool."""
    present: timedelta = timedelta(seconds=5)
    """Between two words of a standby that it is there."""
    trim: timedelta = timedelta(seconds=10)
    """Between two looks at what may be deleted from the logs."""
    back_off: timedelta = timedelta(seconds=1)
    """After a failed takeover, doubling to `back_off_most`."""
    back_off_most: timedelta = timedelta(seconds=60)
    query_patience: timedelta = timedelta(seconds=5)
    """A query older than this isn't answered: nobody waits for it."""
