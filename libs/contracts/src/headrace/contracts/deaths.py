"""One death of a worker or an engine, as checkpoints and dead letters tell it: who went down, when, and what it held.

Written by the owning scheduler, into `state` and into the dead letter of a request that is found to be the killer.
"""

from typing import Annotated

from msgspec import Meta, Struct

from headrace.contracts.failures import FailureKind
from headrace.contracts.values import Count, Name, Sentence, WallMs

SUSPECTS_NAMED = 32
"""Ids of suspects that a death names; `held` counts all of them."""


class Death(Struct, frozen=True, omit_defaults=True, kw_only=True, tag="death"):
    """Key `death/{key}`: the key is the boot, with a number behind it where the engine died and not the worker.

    `suspects` is what was at it then and can't be acquitted: `held` of them, the first 32 by name. `trial` 0: in the normal
    course of work; 1: it ran one suspect, alone; more: so many suspects and nothing else. `message` is what the worker said
    of the engine. `killer`: the request that was found to be the cause.
    """

    key: str
    at_ms: WallMs
    worker: Name
    boot: str
    kind: FailureKind
    trial: Count = 0
    held: Count = 0
    suspects: Annotated[tuple[str, ...], Meta(max_length=SUSPECTS_NAMED)] = ()
    message: Sentence = ""
    killer: str | None = None
