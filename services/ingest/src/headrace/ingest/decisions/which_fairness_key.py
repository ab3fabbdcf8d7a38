"""Whose turns inside its tenant does a request take? Called by the service once per request.

Invariant: what comes out fits a record, whatever was sent; two keys that are told apart by their senders stay apart.
"""

from hashlib import blake2b

MOST_CHARACTERS = 128


def which_fairness_key(
    *, headers: tuple[str | None, ...], field: str | None, end_user: str | None
) -> str | None:
    """The fairness key: of the headers the first that says something, then the native body's field, then the end user that an
    OpenAI client names in the body. None: nobody says. A longer one than a record takes is told by its hash.
    """
    said = next((each for each in (*headers, field, end_user) if each), None)
    if said is None or len(said) <= MOST_CHARACTERS:
        return said
    return blake2b(said.encode("utf-8", "surrogatepass"), digest_size=32).hexdigest()
