"""Wrong versions of what a backend is given of what its answers say is left. Listed by mutants.every."""

from msgspec.structs import replace

from headrace.contracts.reports import Allowed, Left
from headrace.inference_worker.protocol import allowances
from headrace.scheduler.core import backend_pacing
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.decisions.what_has_a_backend_left import Rests, rests_of
from headrace.scheduler.state.backend_ceilings import BackendCeilings
from headrace.scheduler.state.workers import Worker
from tests.simulation.mutants.mutant import Mutant, Patches


def nobody_listens(patches: Patches) -> None:
    def heard(_state: PoolState, _worker: Worker) -> None:
        return

    patches.set(backend_pacing, "heard", heard)


def what_is_on_its_way_isnt_taken_off(patches: Patches) -> None:
    def rests(allowed: Allowed | None, _on_the_way: tuple[int, int], boot_ms: int) -> Rests | None:
        return rests_of(allowed, (0, 0), boot_ms)

    patches.set(backend_pacing, "rests_of", rests)


def what_is_given_isnt_taken_off(patches: Patches) -> None:
    def give(_self: BackendCeilings, _worker: str, _tokens: int, _boot_ms: int) -> None:
        return

    patches.set(BackendCeilings, "give", give)


def what_began_since_isnt_taken_off(patches: Patches) -> None:
    right = allowances._now

    patches.set(allowances, "_now", lambda said, _begun, age_ms: right(said, 0, age_ms))


def every_window_is_a_bucket(patches: Patches) -> None:
    def known(_self: object, said: Left | None) -> Left | None:
        return said

    patches.set(allowances._Pace, "known", known)


def no_bucket_is_one(patches: Patches) -> None:
    def known(_self: object, said: Left | None) -> Left | None:
        return None if said is None else replace(said, steady=False)

    patches.set(allowances._Pace, "known", known)


_RULE = "a backend is given no more than its answers say is left"
_HERE = "test_what_a_backend_has_left::"
LEFT = (
    Mutant(
        "nobody listens to answers",
        _RULE,
        nobody_listens,
        _HERE + "test_a_window_is_filled_and_never_overrun",
    ),
    Mutant(
        "what is on its way isn't taken off",
        _RULE,
        what_is_on_its_way_isnt_taken_off,
        _HERE + "test_what_is_on_its_way_is_taken_off",
    ),
    Mutant(
        "what is given isn't taken off",
        _RULE,
        what_is_given_isnt_taken_off,
        _HERE + "test_tokens_that_are_left_are_given_out_and_no_more",
    ),
    Mutant(
        "what began since isn't taken off",
        _RULE,
        what_began_since_isnt_taken_off,
        _HERE + "test_a_window_is_filled_and_never_overrun",
    ),
    Mutant(
        "every window is a bucket",
        _RULE,
        every_window_is_a_bucket,
        _HERE + "test_a_window_of_a_minute_that_is_used_up_at_once_is_waited_for",
    ),
    Mutant(
        "no bucket is one",
        "what comes back evenly is given evenly",
        no_bucket_is_one,
        _HERE + "test_a_bucket_is_drawn_from_evenly_and_never_overdrawn",
    ),
)
