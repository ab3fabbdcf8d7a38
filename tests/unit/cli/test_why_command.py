"""`headrace why`: what it says of an answer."""

from headrace.cli.commands.why import row_of, told
from headrace.contracts.explanations import Ahead, Basis, Closed, Gate, LengthFrom, RateFrom, Share, Why
from headrace.contracts.ids import RequestAddress
from headrace.contracts.lifecycle import Status
from headrace.contracts.replies import Answer

ADDRESS = RequestAddress("main", "batch", 0, 0)


def answer(**more: object) -> Answer:
    fields = {"known": True, "status": Status.QUEUED, **more}
    return Answer(id="req_x", nonce="n", epoch=1, as_of_ms=1_700_000_000_000, **fields)  # type: ignore[arg-type]


def test_a_waiting_request_is_told_with_who_is_ahead_its_share_and_the_basis() -> None:
    why = Why(
        ahead=Ahead(own=2, others=6, tenants=3, tiers={"batch": 8, "standard": 1}, cost=99, exact=False),
        share=Share(weight=1, waiting_weight=4, part_permille=125, tier_permille=500, got_permille=90, in_flight=2),
        basis=Basis(
            prompt_tokens=30, answer_tokens=84, most_answer_tokens=190, length_from=LengthFrom.MODEL, choices=2,
            cost=366, takes_ms=5_600, rate_milli=41_200, rate_from=RateFrom.SERVED,
        ),
    )  # fmt: skip
    where, ahead, starts, share, basis = told(answer(why=why, estimated_wait_ms=4_100), ADDRESS)
    assert (where, starts) == ("queued in tier batch of pool main", "starts in about 4.1s")
    assert ahead == (
        "before it go 2 of its tenant and 6 of 3 other tenants in its tier; by tier: 8 of batch, 1 of standard, "
        "counted by samples"
    )
    assert share == (
        "its tenant gets 12.5 % of the pool's work by weight 1 of 4, got 9 % in the last 30 s, and has 2 in flight"
    )
    assert basis == (
        "it is charged 366 service units: 30 tokens of prompt and 2 x 84 of answer (from: model), which takes 5.6s; "
        "its tenant's rate is 41.2 units/s (from: served)"
    )


def test_what_runs_and_what_is_not_known_are_one_sentence() -> None:
    running = answer(status=Status.RUNNING, tokens=7, why=Why())
    assert list(told(running, ADDRESS)) == ["running in tier batch of pool main, with 7 tokens so far"]
    unknown = answer(known=False, status=None, why=Why())
    assert list(told(unknown, ADDRESS)) == [
        "the owner of main doesn't hold it; if it has ended, its status says how: GET /v1/requests/req_x"
    ]


def test_who_is_ahead_is_told_of_those_that_there_are() -> None:
    def told_of(ahead: Ahead) -> str:
        return list(told(answer(why=Why(ahead=ahead)), ADDRESS))[1]

    assert told_of(Ahead()) == "nothing goes before it"
    assert told_of(Ahead(tiers={"batch": 0})) == "nothing goes before it"
    alone = told_of(Ahead(own=5, tiers={"batch": 5, "standard": 0}))
    assert alone == "before it go 5 of its tenant and none of others in its tier; by tier: 5 of batch"
    assert "and 2 of 1 other tenant in its tier;" in told_of(Ahead(others=2, tenants=1, tiers={"batch": 2}))


def test_a_gate_that_opens_by_itself_says_when() -> None:
    now_ms = 1_700_000_000_000
    closed = Closed(gate=Gate.CEILING, limit=600, until_ms=now_ms + 20_657)
    assert row_of(closed, now_ms)[:4] == ("ceiling", "600", "", "in 21s")
    assert row_of(closed, now_ms + 30_000)[3] == "now"
    assert row_of(Closed(gate=Gate.FROZEN), now_ms)[1:4] == ("", "", "")
