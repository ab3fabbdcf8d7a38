"""What workers report, as tests write it."""

from typing import Any

from headrace.contracts.commands import Run
from headrace.contracts.reports import Held


def held_of(run: Run, **more: Any) -> Held:
    """The attempt that a command asked for, as its worker reports it while it runs."""
    request, fields = run.request, {"running": True, "expects": run.expects, **more}
    return Held(
        id=request.id, tenant=request.tenant, tier=request.tier, origin=run.origin, attempt=run.attempt,
        attempts=run.attempts, charge=run.charge, **fields,
    )  # fmt: skip
