"""`headrace why ID`: asks a pool's owner why a request isn't running, as its tenant does with `GET /v1/requests/{id}/why`."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated

import typer

from headrace.cli.log_reading import logs_of
from headrace.cli.options import AsJson, Kafka, Prefix, settings_of
from headrace.cli.owner_asking import Owner
from headrace.cli.queue_filters import Within, patience_of
from headrace.cli.terminal import say, say_json, show_table
from headrace.cli.trouble import Trouble
from headrace.contracts.durations import render
from headrace.contracts.explanations import GATES, Ahead, Basis, Closed, Share, Why
from headrace.contracts.ids import MalformedIdError, RequestAddress, read_request_id
from headrace.contracts.replies import Answer

_COLUMNS = ("closed gate", "limit", "used", "opens", "what its tenant is told")


def why(
    request: Annotated[str, typer.Argument(help="The request's id, req_....")],
    within: Within = "10s",
    kafka: Kafka = None,
    prefix: Prefix = None,
    as_json: AsJson = False,
) -> None:
    """Ask a pool's owner why a request isn't running: closed gates, who is ahead, its tenant's share."""
    try:
        address = read_request_id(request)
    except MalformedIdError as error:
        raise Trouble(f"{error}: give an id as ingest told it") from None
    with logs_of(settings_of(kafka=kafka, prefix=prefix)) as logs:
        answer = Owner(logs, address.pool, patience_of(within)).why(request)
    if as_json:
        say_json(answer)
        return
    for line in told(answer, address):
        say(line)
    closed = () if answer.why is None else answer.why.closed
    if closed:
        show_table(_COLUMNS, (row_of(each, answer.as_of_ms) for each in closed))


def told(answer: Answer, address: RequestAddress) -> Iterator[str]:
    """What the answer says, in sentences; the closed gates are shown in a table beside them."""
    found, where = answer.why or Why(), f"tier {address.tier} of pool {address.pool}"
    if answer.status is None:
        look = f"if it has ended, its status says how: GET /v1/requests/{answer.id}"
        yield f"the owner of {address.pool} doesn't hold it; {look}"
        return
    yield f"{answer.status} in {where}" + (f", with {answer.tokens} tokens so far" if answer.tokens else "")
    if found.ahead is not None:
        yield _ahead(found.ahead)
    if answer.estimated_wait_ms is not None:
        most_ms = answer.estimated_wait_p95_ms
        within = "" if most_ms is None else f", 19 of 20 such within {_time(most_ms)}"
        yield f"starts in about {_time(answer.estimated_wait_ms)}{within}"
    if found.share is not None:
        yield _share(found.share)
    if found.basis is not None:
        yield _basis(found.basis)


def _ahead(ahead: Ahead) -> str:
    tiers = ", ".join(f"{count} of {tier}" for tier, count in ahead.tiers.items() if count)
    if not tiers:
        return "nothing goes before it"
    about = "" if ahead.exact else ", counted by samples"
    others = (
        f"{ahead.others} of {ahead.tenants} other tenant{'s' * (ahead.tenants != 1)}"
        if ahead.others
        else "none of others"
    )
    return f"before it go {ahead.own} of its tenant and {others} in its tier; by tier: {tiers}{about}"


def _share(share: Share) -> str:
    by_weight = f"by weight {share.weight} of {share.waiting_weight}"
    return (
        f"its tenant gets {share.part_permille / 10:g} % of the pool's work {by_weight}, "
        f"got {share.got_permille / 10:g} % in the last 30 s, and has {share.in_flight} in flight"
    )


def _basis(basis: Basis) -> str:
    takes = "" if basis.takes_ms is None else f", which takes {_time(basis.takes_ms)}"
    rate = f"{basis.rate_milli / 1000:g} units/s (from: {basis.rate_from})"
    return (
        f"it is charged {basis.cost} service units: {basis.prompt_tokens} tokens of prompt and {basis.choices} x "
        f"{basis.answer_tokens} of answer (from: {basis.length_from}){takes}; its tenant's rate is {rate}"
    )


def _time(milliseconds: int) -> str:
    """To a tenth of a second below ten, since none of these is known better."""
    seconds = milliseconds / 1000
    return f"{seconds:.1f}s" if seconds < 10 else render(timedelta(seconds=round(seconds)))


def row_of(closed: Closed, as_of_ms: int) -> tuple[str, ...]:
    """A closed gate in the table; the messages are as its tenant reads them."""
    counted = ("" if number is None else str(number) for number in (closed.limit, closed.used))
    return (closed.gate, *counted, _opens(closed.until_ms, as_of_ms), GATES[closed.gate])


def _opens(until_ms: int | None, as_of_ms: int) -> str:
    if until_ms is None:
        return ""
    return f"in {_time(until_ms - as_of_ms)}" if until_ms > as_of_ms else "now"
