"""Whose turns inside its tenant does a request take? Called by the service once per request.

Invariant: what comes out fits a record, whatever was sent; two keys that their senders tell apart stay apart; what a body
says of a person doesn't leave the body, which may be sealed.
"""

from hashlib import blake2b

MOST_CHARACTERS = 128


def which_fairness_key(
    *, headers: tuple[str | None, ...], field: str | None, end_user: str | None, secret: bytes
) -> str | None:
    """The fairness key: of the headers the first that says something, then the native body's field, then the end user that an
    OpenAI client names in the body. None: nobody says. An end user, and a key longer than a record takes, are told by a hash
    that nobody can guess without the `secret`.
    """
    said = next((each for each in (*headers, field) if each), None)
    if said is not None and len(said) <= MOST_CHARACTERS:
        return said
    named = said or end_user
    return _hash(named, secret) if named else None


def _hash(text: str, secret: bytes) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, key=secret[:64]).hexdigest()
