"""What a request that stands in no log yet would wait and cost, as its pool's owner tells it."""

from headrace.contracts.control import Query
from headrace.contracts.explanations import (
    LengthFrom,
    Misses,
    Quote,
    RateFrom,
)
from headrace.contracts.replies import Answer
from headrace.contracts.requests import RequestRecord
from tests.support.scheduler.asking import asked, finish, request, started, submit
from tests.support.scheduler.case import Case


def quoted(case: Case, record: RequestRecord, *tiers: str) -> Answer:
    quote = Quote(request=record, tiers=tiers or (record.tier,))
    return asked(case, Query(id=record.id, nonce=f"quote-{case.world.now_ms}", gateway=0, quote=quote))


def test_a_quote_of_an_idle_pool_starts_at_once_and_leaves_nothing_behind() -> None:
    case = started()
    record = request(case, prompt_tokens=100, max_tokens=10)
    state = case.core.state
    before = (len(state.tracked), dict(state.accounts.tiers["batch"].tenants), state.queue.backlog_of_all())
    [offer] = quoted(case, record).offers
    assert (offer.tier, offer.wait_ms, offer.feasible, offer.misses) == ("batch", 0, True, None)
    assert offer.why.basis is not None
    assert offer.why.basis.cost == 100 + 2 * 10
    assert (offer.why.basis.length_from, offer.why.basis.max_tokens) == (LengthFrom.MAX_TOKENS, 10)
    assert (
        len(state.tracked),
        dict(state.accounts.tiers["batch"].tenants),
        state.queue.backlog_of_all(),
    ) == before
    assert case.results() == []


def test_a_quote_behind_a_full_pool_waits_as_a_request_would_and_says_what_it_would_miss() -> None:
    case = started(limit=8)
    for _ in range(40):
        submit(case, max_tokens=None)
    case.run(2_000)
    behind = request(case, max_tokens=None)
    [unknown] = quoted(case, behind).offers
    assert (unknown.wait_ms, unknown.feasible) == (None, None), "nothing was served yet"
    finish(case, 8)
    case.run(100)
    wall_ms = case.world.now.wall_ms
    last = submit(case, max_tokens=None)
    case.run(100)
    real = asked(case, Query(id=last.id, nonce="real", gateway=0))
    [offer] = quoted(case, request(case, max_tokens=None)).offers
    assert real.estimated_wait_ms is not None
    assert offer.wait_ms is not None
    assert offer.wait_ms > real.estimated_wait_ms > 0
    assert offer.feasible is True
    assert offer.why.ahead is not None
    assert (offer.why.ahead.own, real.position) == (25, 24)
    soon, late = (
        quoted(case, request(case, max_tokens=None, start_by_ms=wall_ms + 2_000, priority=priority)).offers[0]
        for priority in (0, -1)
    )
    assert soon.why.ahead is not None
    assert (soon.feasible, soon.why.ahead.own) == (True, 0), "the earliest deadline goes first"
    assert (late.feasible, late.misses) == (False, Misses.QUEUE_TIMEOUT)
    [late] = quoted(case, request(case, max_tokens=None, finish_by_ms=wall_ms + 1_000)).offers
    assert (late.feasible, late.misses) == (False, Misses.DEADLINE)


def test_a_quote_compares_tiers_and_leaves_out_those_that_the_owner_does_not_know() -> None:
    case = started(limit=1)
    for _ in range(20):
        submit(case)
    case.run(500)
    record = request(case, start_by_ms=case.world.now.wall_ms + 24 * 3_600_000)
    offers = quoted(case, record, "batch", "nowhere", "interactive").offers
    assert [offer.tier for offer in offers] == ["batch", "interactive"]
    batch, interactive = (offer.why.ahead for offer in offers)
    assert batch is not None
    assert interactive is not None
    assert batch.tiers == {"batch": 19}
    assert interactive.own == 0
    assert sum(interactive.tiers.values()) <= 1, "a tier that comes now is before a tier that was served"


def test_the_basis_says_where_length_and_rate_come_from() -> None:
    case = started(limit=32)
    for _ in range(34):
        submit(case, max_tokens=None, prompt_tokens=5)
    case.run(500)
    first = quoted(case, request(case, max_tokens=None)).offers[0].why.basis
    assert first is not None
    assert (first.length_from, first.answers, first.rate_from) == (LengthFrom.DEFAULT, 0, RateFrom.NOTHING)
    finish(case, 30)
    case.run(200)
    second = quoted(case, request(case, max_tokens=None)).offers[0].why.basis
    assert second is not None
    assert (second.length_from, second.answers, second.answer_tokens) == (LengthFrom.TENANT, 30, 11)
    assert second.rate_from is RateFrom.SERVED
    assert second.takes_ms is not None
    other = quoted(case, request(case, "b", max_tokens=None)).offers[0].why.basis
    assert other is not None
    assert (other.length_from, other.rate_from) == (LengthFrom.MODEL, RateFrom.SHARE)
