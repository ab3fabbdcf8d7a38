"""Any interleaving of members, zombies, batches and redeliveries on one log gives the same rows: the pure parts alone."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from headrace.bus.messages import Message, Place, Received
from headrace.contracts.topics import TopicKind, TopicNames
from headrace.result_delivery.decisions.what_to_commit import what_to_commit
from headrace.result_delivery.decisions.what_to_tell import Destinations
from headrace.result_delivery.decisions.where_to_read import Stand
from headrace.result_delivery.decisions.why_refused import Refused
from headrace.result_delivery.judging import Judging
from headrace.result_delivery.share import ReadShare
from tests.support.results import (
    ACCEPTED_MS,
    attempt,
    attempt_message,
    request,
    request_message,
    result,
    result_message,
)

NAMES = TopicNames()
TOPICS = [
    NAMES.of(kind, pool="main", tier="standard")
    for kind in (TopicKind.RESULTS, TopicKind.ATTEMPTS, TopicKind.REQUESTS)
]
PLACES = [Place(name, 0) for name in TOPICS]
WHERE = Destinations("headrace.replies", "headrace.events", gateways=4)


def message_of(kind: int, number: int, sequence: int, mark: int) -> Message:
    """The `mark` tells which of several records of one key was stored."""
    match kind:
        case 0:
            return result_message(TOPICS[0], result(number, attempt=mark))
        case 1:
            return attempt_message(TOPICS[1], attempt(number, sequence=sequence, charge=mark))
        case _:
            return request_message(TOPICS[2], request(number, accepted_ms=ACCEPTED_MS + mark))


@dataclass
class Database:
    """The guarded store as the transaction sees it: moves whole or not at all, and leaves rows that are there."""

    positions: dict[Place, Stand] = field(default_factory=dict)
    results: dict[str, int] = field(default_factory=dict)
    ledger: dict[tuple[str, int], int] = field(default_factory=dict)
    requests: dict[str, int] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    def commit(self, share: ReadShare) -> None:
        stands = {each.place: Stand(each.offset + 1, "id") for each in share.held}
        if any(self.positions.get(place) != share.stand(place) for place in stands):
            share.doubt(stands)  # lost: rolled back
            return
        for place in stands:
            before = self.positions.get(place)
            begin = 0 if before is None else before.next_offset
            offsets = [each.offset for each in share.held if each.place == place]
            assert offsets == list(range(begin, begin + len(offsets))), "from the position on, without gaps"
        self.positions |= stands
        found = [each.found for each in share.held if not isinstance(each.found, Refused)]
        commit = what_to_commit(found, set(self.results), committed_ms=ACCEPTED_MS, destinations=WHERE)
        assert not self.results.keys() & {row["id"] for row in commit.rows}
        self.results |= {row["id"]: row["attempt_sequence"] for row in commit.rows}
        keys = [(row["id"], row["attempt_sequence"]) for row in commit.ledger]
        assert len(set(keys)) == len(keys), "each once in a batch"
        assert len({row["id"] for row in commit.requests}) == len(commit.requests)
        for row in commit.ledger:
            self.ledger.setdefault((row["id"], row["attempt_sequence"]), row["charge"])
        for noted in commit.requests:
            self.requests.setdefault(noted["id"], noted["accepted_ms"])
        self.told += [row["id"] for row in commit.rows]
        share.committed(stands)


class Member:
    """Reads when it is told to, from where it believes to stand."""

    def __init__(self, log: dict[Place, list[Received]], database: Database) -> None:
        self.log, self.database = log, database
        self.share = ReadShare(Judging(NAMES, ["main"], ["standard"]).judge)
        self.at: dict[Place, int] = {}
        self.skipped: set[Place] = set()
        self.find()

    def find(self) -> None:
        """Asks SQL where it stands."""
        stands = {place: self.database.positions.get(place) for place in PLACES}
        self.at = {place: 0 if stand is None else stand.next_offset for place, stand in stands.items()}
        self.share.begin(stands, self.at)

    def do(self, what: str, place: Place, count: int) -> None:
        match what:
            case "read":
                records = self.log[place][self.at[place] : self.at[place] + count]
                self.at[place] += len(records)
                self.share.take(records)
            case "skip" if place not in self.skipped:  # a client that lost its place once, the other way
                self.skipped.add(place)
                self.share.take(self.log[place][self.at[place] + count :])
                if self.share.in_doubt:
                    self.find()
            case "again":  # a redelivery, or a client that lost its place
                self.at[place] = max(0, self.at[place] - count)
            case "commit":
                self.database.commit(self.share)
                if self.share.in_doubt:
                    self.find()
            case _:
                self.find()


RECORDS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(1, 3), st.integers(1, 99)),
    min_size=10,
    max_size=40,
)
STEPS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from(["read", "read", "read", "commit", "commit", "again", "skip", "find"]),
        st.sampled_from(PLACES),
        st.integers(1, 6),
    ),
    min_size=25,
    max_size=60,
)


@given(RECORDS, STEPS)
def test_any_interleaving_gives_the_rows_of_the_log_read_once(
    records: list[tuple[int, int, int, int]], steps: list[tuple[int, str, Place, int]]
) -> None:
    log: dict[Place, list[Received]] = {place: [] for place in PLACES}
    for each in records:
        message = message_of(*each)
        at = log[message.place]
        at.append(
            Received(message.topic, 0, len(at), ACCEPTED_MS, message.value, message.headers, message.key)
        )
    found, once = Database(), Database()
    members = [Member(log, found) for _ in range(2)]
    for who, what, place, count in steps:
        members[who].do(what, place, count)
    for database, last in ((found, members[0]), (once, Member(log, once))):
        last.find()
        for place in PLACES:
            last.do("read", place, 100)
        database.commit(last.share)
    assert (found.results, found.ledger, found.requests) == (once.results, once.ledger, once.requests)
    assert sorted(found.told) == sorted(once.results), "and each is told once"
    assert found.positions == once.positions
