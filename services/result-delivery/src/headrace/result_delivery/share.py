"""Which partitions are ours, where each stands in SQL, and what was read of them but isn't committed. Held by the service.

Invariant: what is held of a partition begins at its SQL position, is in log order without gaps, and is dropped whole when
the partition is lost, its position is in doubt, or its log can't be used.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from headrace.bus.messages import Place, Received
from headrace.result_delivery.decisions.where_to_read import Stand
from headrace.result_delivery.decisions.why_refused import Refused
from headrace.result_delivery.judging import Judged


class ReadShare:
    """The member's share of the logs. Only the loop's own thread touches it."""

    def __init__(self, judge: Callable[[Received], Judged]) -> None:
        self._judge = judge
        self._stands: dict[Place, Stand | None] = {}
        self._reads: dict[Place, int | None] = {}
        self._believed_gaps: dict[Place, int] = {}
        self.in_doubt: set[Place] = set()
        self.unusable: dict[Place, str] = {}
        """Ours, but not to be read: what a person must mend, as a sentence."""
        self.held: list[Judged] = []

    @property
    def places(self) -> set[Place]:
        """All that is assigned, in doubt or not."""
        return {*self._stands, *self.in_doubt, *self.unusable}

    @property
    def urgent(self) -> bool:
        """Whether somebody waits for what is held."""
        return any(each.urgent for each in self.held)

    def stand(self, place: Place) -> Stand | None:
        """Where SQL has it, as far as we know; None: no row yet."""
        return self._stands[place]

    def stands(self) -> dict[Place, Stand]:
        """Where SQL has all that we read and that has a row."""
        return {place: stand for place, stand in self._stands.items() if stand is not None}

    def begin(self, stands: Mapping[Place, Stand | None], reads: Mapping[Place, int | None]) -> None:
        """These are read from here: None is the log's start, wherever that is."""
        self.lose(stands)
        self._stands.update(stands)
        self._reads.update(reads)

    def doubt(self, places: Iterable[Place]) -> None:
        """Their SQL position must be asked for before anything more is read or committed of them."""
        doubted = set(places)
        self.lose(doubted)
        self.in_doubt |= doubted

    def give_up(self, place: Place, sentence: str) -> None:
        """Its log can't be used until somebody mends it."""
        self.lose([place])
        self.unusable[place] = sentence

    def lose(self, places: Iterable[Place]) -> None:
        """These are no longer ours, with all that was read of them."""
        lost = set(places)
        self.in_doubt -= lost
        for place in lost:
            for known in (self._stands, self._reads, self.unusable):
                known.pop(place, None)
        self.held = [record for record in self.held if record.place not in lost]

    def take(self, records: Iterable[Received]) -> None:
        """Holds what was read, but for what isn't ours, was read before, or leaves a gap that isn't believed yet."""
        for record in records:
            if record.place not in self._reads:
                continue
            reads = self._reads[record.place]
            if reads is not None and record.offset < reads:
                continue
            if reads is not None and record.offset > reads and not self._believes(record):
                self.doubt([record.place])
                continue
            self.held.append(self._judge(record))
            self._reads[record.place] = record.offset + 1

    def refuse(self, refusals: Mapping[int, Refused]) -> None:
        """These of what is held, by their place in it, can't be stored after all."""
        for number, refusal in refusals.items():
            self.held[number] = replace(self.held[number], found=refusal)

    def committed(self, stands: Mapping[Place, Stand]) -> None:
        """What is held was committed; SQL stands here now."""
        self._stands.update(stands)
        self.held = []

    def _believes(self, record: Received) -> bool:
        """A gap may be what a client skipped after a rebalance; one that is there on a second reading is the log's own."""
        believed = self._believed_gaps.get(record.place) == record.offset
        self._believed_gaps[record.place] = record.offset
        return believed
