"""What a mistyped name was probably meant to be. Used wherever an operator writes names: settings and the policy file."""

import difflib
from collections.abc import Iterable


def closest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name most like `word`, whatever its case, or None when none is at least `cutoff` (0 to 1) alike."""
    by_lower = {name.lower(): name for name in known}
    matches = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[matches[0]] if matches else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the likely one, or all there are."""
    names = sorted(known)
    best = closest(word, names)
    if best is not None:
        return f'did you mean "{best}"?'
    return f"known here: {', '.join(names)}." if names else "nothing is known here."
