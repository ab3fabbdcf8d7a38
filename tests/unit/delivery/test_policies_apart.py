"""Services read a policy file each for itself: a pool's owner may serve a tier before result-delivery knows of it."""

from headrace.bus.messages import Message, Received
from headrace.contracts.ids import mint_request_id
from headrace.contracts.topics import TopicKind, TopicNames
from headrace.contracts.values import Origin
from headrace.result_delivery.decisions.is_it_an_attempt import Attempted
from headrace.result_delivery.decisions.why_refused import LeftToOwner
from headrace.result_delivery.judging import Judging
from tests.support.results import ACCEPTED_MS, attempt, attempt_message

NAMES = TopicNames()
ATTEMPTS = NAMES.of(TopicKind.ATTEMPTS, pool="main")
JUDGING = Judging(NAMES, ["main"], ["standard"])


def judged(message: Message) -> object:
    return JUDGING.judge(
        Received(message.topic, message.partition, 0, ACCEPTED_MS, message.value, message.headers)
    ).found


def id_of(tier: str) -> str:
    return mint_request_id(
        b"k" * 32, tenant="acme", pool="main", tier=tier, partition=0, wall_ms=ACCEPTED_MS, random=bytes(10)
    )


def test_an_attempt_of_a_tier_that_only_its_owner_knows_yet_is_booked() -> None:
    origin = Origin(NAMES.of(TopicKind.REQUESTS, pool="main", tier="new"), 0, 7)
    record = attempt(1, id=id_of("new"), tier="new", origin=origin, started=True)
    assert judged(attempt_message(ATTEMPTS, record)) == Attempted(record, "main")


def test_an_attempt_of_another_pool_or_of_another_tier_than_its_requests_is_not() -> None:
    elsewhere = Origin(NAMES.of(TopicKind.REQUESTS, pool="other", tier="standard"), 0, 7)
    lies = (
        attempt(1, origin=elsewhere),
        attempt(1, tier="new"),
        attempt(1, tier="new", started=True, origin=Origin("headrace.requests.main.new", 0, 7)),
    )
    assert {type(judged(attempt_message(ATTEMPTS, lie))) for lie in lies} == {LeftToOwner}
