"""Wrong versions of delivery's rule, of what readers are shown, and of trimming. Listed by mutants.every."""

from typing import Any

from sqlalchemy import insert

from headrace.ingest.decisions import mend_stream
from headrace.ingest.decisions.follow_chunks import ChunkOrder, Shown
from headrace.ingest.decisions.native_events import NativeEvents
from headrace.result_delivery.adapters.sql_transaction import SqlTransaction
from headrace.result_delivery.adapters.tables import POSITIONS, RESULTS
from headrace.result_delivery.outbox import Outbox
from headrace.result_delivery.share import ReadShare
from headrace.scheduler.core import when_to_trim
from tests.simulation.mutants.mutant import Mutant, Patches


def a_position_is_moved_unasked(patches: Patches) -> None:
    def move(self: SqlTransaction, moves: Any) -> None:
        for each in moves:
            row = {
                "topic": each.place.topic, "partition": each.place.partition,
                "next_offset": each.new.next_offset, "topic_id": each.new.topic_id,
            }  # fmt: skip
            self._connection.execute(insert(POSITIONS).prefix_with("OR REPLACE"), row)

    patches.set(SqlTransaction, "move", move)


def the_last_result_wins(patches: Patches) -> None:
    def put(self: SqlTransaction, rows: Any) -> None:
        if rows:
            self._connection.execute(insert(RESULTS).prefix_with("OR REPLACE"), [dict(row) for row in rows])

    patches.set(SqlTransaction, "known", lambda _self, _ids: set())
    patches.set(SqlTransaction, "insert", put)


def the_position_is_committed_first(patches: Patches) -> None:
    right = SqlTransaction.move

    def move(self: SqlTransaction, moves: Any) -> None:
        right(self, moves)
        connection: Any = self._connection.connection.driver_connection
        connection.commit()

    patches.set(SqlTransaction, "move", move)


def the_unconfirmed_is_forgotten(patches: Patches) -> None:
    patches.set(Outbox, "forgettable", lambda self: sorted({*self._pending, *self._confirmed}))


def a_lost_partition_is_kept(patches: Patches) -> None:
    patches.set(ReadShare, "doubt", lambda _self, _places: None)


def the_ledger_lacks_rows(patches: Patches) -> None:
    right = SqlTransaction.book
    patches.set(SqlTransaction, "book", lambda self, rows: right(self, rows[:-1]))


def older_attempts_are_shown(patches: Patches) -> None:
    right = ChunkOrder.take

    def take(self: ChunkOrder, chunk: Any) -> Shown:
        if self.attempt is not None and chunk.attempt < self.attempt:
            return Shown.RELAY
        return right(self, chunk)

    patches.set(ChunkOrder, "take", take)


def gaps_are_shown(patches: Patches) -> None:
    def in_order(self: ChunkOrder, chunk: Any) -> Shown:
        self._next, self._shown = chunk.number + 1, True
        return Shown.RELAY

    patches.set(ChunkOrder, "_in_order", in_order)


def nothing_is_said_of_a_restart(patches: Patches) -> None:
    right = ChunkOrder._newer

    def newer(self: ChunkOrder, chunk: Any) -> Shown:
        shown = right(self, chunk)
        return Shown.RELAY if shown is Shown.RESTART else shown

    patches.set(ChunkOrder, "_newer", newer)


def a_silent_attempt_hides_a_restart(patches: Patches) -> None:
    right = ChunkOrder._newer

    def newer(self: ChunkOrder, chunk: Any) -> Shown:
        self._shown = self._next > 0
        return right(self, chunk)

    patches.set(ChunkOrder, "_newer", newer)


def whatever_was_sent_is_mended(patches: Patches) -> None:
    def missing(sent: Any, choice: Any, *, whole: bool) -> dict[str, Any]:  # noqa: ARG001
        return {
            field: text[len(sent.text(choice.index, field)) :]
            for field, text in choice.texts().items()
            if len(text) > len(sent.text(choice.index, field))
        }

    patches.set(mend_stream, "_missing", missing)


def who_comes_back_is_taken_for_new(patches: Patches) -> None:
    right = NativeEvents.__init__

    def init(self: NativeEvents, at: Any, *, resumed: bool) -> None:
        right(self, at, resumed=resumed)
        self._had = 0

    patches.set(NativeEvents, "__init__", init)


def the_end_is_not_mended(patches: Patches) -> None:
    patches.set(NativeEvents, "_mend", lambda _self, _stored, _ended: [])


def what_delivery_has_not_read_is_trimmed(patches: Patches) -> None:
    def needed(checkpointed: Any, delivered: Any, unread: Any) -> Any:  # noqa: ARG001
        return dict(checkpointed)

    patches.set(when_to_trim, "first_needed", needed)


ANSWERS = (
    Mutant(
        "the last result wins",
        "the first terminal record is the result",
        the_last_result_wins,
        "two_results_of_one_request",
    ),
    Mutant(
        "position before rows",
        "position and rows are one transaction",
        the_position_is_committed_first,
        "a_transaction_breaks_off",
    ),
    Mutant(
        "outbox forgets the unconfirmed",
        "a message stays until it is confirmed",
        the_unconfirmed_is_forgotten,
        "events_wait_while_all_members_die",
    ),
    Mutant(
        "no guard on positions",
        "a position moves only from where it is",
        a_position_is_moved_unasked,
        "a_member_that_was_put_out_commits_what_it_holds",
    ),
    Mutant(
        "lost partitions are kept",
        "a position that moved is asked for again",
        a_lost_partition_is_kept,
        "a_worker_answers_late",
    ),
    Mutant(
        "ledger lacks rows",
        "each finished attempt has its row",
        the_ledger_lacks_rows,
        "a_worker_answers_late",
    ),
    Mutant(
        "older attempts shown",
        "readers follow the highest attempt",
        older_attempts_are_shown,
        "a_worker_that_stood_still_streams_on",
    ),
    Mutant(
        "gaps shown",
        "what follows a gap is left to the stored text",
        gaps_are_shown,
        "a_reader_is_shown_a_gap_and_comes_back",
    ),
    Mutant(
        "no restart said",
        "another attempt's text begins with a restart",
        nothing_is_said_of_a_restart,
        "a_failed_attempt_was_streamed",
    ),
    Mutant(
        "silent attempt hides restart",
        "and so behind one that showed nothing",
        a_silent_attempt_hides_a_restart,
        "an_attempt_between_two_shows_nothing",
    ),
    Mutant(
        "mended whatever was sent",
        "what differs isn't mended",
        whatever_was_sent_is_mended,
        "a_failed_attempt_was_streamed_at_the_other_door",
    ),
    Mutant(
        "resumed as new",
        "who comes back isn't told again",
        who_comes_back_is_taken_for_new,
        "a_reader_is_shown_a_gap_and_comes_back",
    ),
    Mutant(
        "end not mended",
        "an end brings what is missing",
        the_end_is_not_mended,
        "a_reader_is_shown_a_gap_and_comes_back",
    ),
    Mutant(
        "trims the undelivered",
        "nothing unread is trimmed",
        what_delivery_has_not_read_is_trimmed,
        "result_delivery_is_away_for_long",
    ),
)
