"""How long answers have been of late: mean and 9th decile, for each sort of request. Used by core.estimating.

Invariant: integers, and at most so many sorts, the least recently used dropped. Not checkpointed: a new owner learns anew
from the prior, which moves no counter, since a charge is echoed by whoever holds the attempt and settled on actual use.
"""

from bisect import bisect_left
from collections import OrderedDict
from dataclasses import dataclass, field

from headrace.contracts.explanations import LengthFrom
from headrace.scheduler.decisions.estimate_cost import Length
from headrace.scheduler.decisions.whose_answers_are_alike import Alike

_BOUNDS = [base << octave for octave in range(16) for base in (4, 6)]
"""The greatest length in each of 32 buckets, two an octave: 4, 6, 8, 12 ... 196,608 tokens."""
_UNIT = 1 << 10
"""One answer, in the integers of the histogram: so halving loses nothing that counts."""
_REMEMBERED = 128 * _UNIT
NEEDED = 20
"""Answers from which on a sort of request has an estimate of its own."""
MOST_SORTS = 20_000


@dataclass(slots=True)
class _Histogram:
    """Recent answers weigh more: at 128 of them all count half."""

    counts: list[int] = field(default_factory=lambda: [0] * len(_BOUNDS))
    weight: int = 0
    tokens: int = 0
    seen: int = 0

    def add(self, tokens: int) -> None:
        self._count(_bucket_of(tokens), _UNIT, tokens)
        self._decay()

    def add_longer(self, tokens: int) -> None:
        """Efron's redistribution to the right: it is as long as those that were at least so long."""
        first = _bucket_of(tokens)
        above = self.counts[first:]
        known = sum(above)
        for number, count in enumerate(above, first):
            share = _UNIT * count // known if known else 0
            self._count(number, share, max(tokens, _BOUNDS[number]))
        rest = _UNIT - sum(_UNIT * count // known for count in above) if known else _UNIT
        self._count(first, rest, tokens)
        self._decay()

    def _count(self, bucket: int, part: int, tokens: int) -> None:
        self.counts[bucket] += part
        self.weight += part
        self.tokens += tokens * part

    def _decay(self) -> None:
        self.seen += 1
        if self.weight >= _REMEMBERED:
            self.counts = [count // 2 for count in self.counts]
            self.weight, self.tokens = sum(self.counts), self.tokens // 2

    def mean(self) -> int:
        return -(-self.tokens // self.weight)

    def length(self) -> Length:
        mean = self.mean()
        return Length(mean, max(mean, self._decile()))

    def _decile(self) -> int:
        """Inside its bucket as if lengths were spread evenly there."""
        wanted, below = self.weight * 9 // 10, 0
        for number, count in enumerate(self.counts):
            if below + count >= wanted > below:
                low = _BOUNDS[number - 1] if number else 0
                return low + (_BOUNDS[number] - low) * (wanted - below) // count
            below += count
        return _BOUNDS[-1]


def _bucket_of(tokens: int) -> int:
    return min(bisect_left(_BOUNDS, tokens), len(_BOUNDS) - 1)


class AnswerLengths:
    """The histograms. `default`: tokens of an answer of a model that nothing is known of yet."""

    def __init__(self, default: int, most_sorts: int = MOST_SORTS) -> None:
        self._most = most_sorts
        self.begin_with(default)
        self._of: OrderedDict[Alike | str, _Histogram] = OrderedDict()

    def __len__(self) -> int:
        return len(self._of)

    def learn(self, alike: Alike, tokens: int, *, cut_off: bool = False) -> None:
        """One choice of an answer was so long; `cut_off`: it would have been longer. If those were left out, only the short
        ones would be known where deadlines cut the long ones off, and ever more would be begun in vain.
        """
        for sort in (alike, alike.model):
            known = self._of.get(sort)
            if known is None:
                known = self._of[sort] = _Histogram()
            (known.add_longer if cut_off else known.add)(tokens)
            self._of.move_to_end(sort)
        while len(self._of) > self._most:
            self._of.popitem(last=False)

    def begin_with(self, default: int) -> None:
        """So long is an answer of a model that nothing is known of, from now on."""
        self._prior = Length(default, default)

    def of(self, alike: Alike) -> Length:
        """Its own sort's; with fewer than 20 answers that of the model, and then the default."""
        known = self._known(alike)
        return self._prior if known is None else known.length()

    def mean_of(self, alike: Alike) -> int:
        """The mean alone, which is a sixth of the work: a charge takes no more."""
        known = self._known(alike)
        return self._prior.mean if known is None else known.mean()

    def source_of(self, alike: Alike) -> tuple[LengthFrom, int]:
        """Where `of` has it from, and how many answers had been seen."""
        for source, sort in ((LengthFrom.TENANT, alike), (LengthFrom.MODEL, alike.model)):
            known = self._of.get(sort)
            if known is not None and known.seen >= NEEDED:
                return source, known.seen
        return LengthFrom.DEFAULT, 0

    def _known(self, alike: Alike) -> _Histogram | None:
        for sort in (alike, alike.model):
            known = self._of.get(sort)
            if known is not None:
                self._of.move_to_end(sort)
                if known.seen >= NEEDED:
                    return known
        return None
