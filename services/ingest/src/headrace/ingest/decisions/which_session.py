"""Which requests belong together, so that they had best run where the last of them ran? Called once per request.

Invariant: what comes out fits a record and says nothing of what was sent; two tenants' sessions are never the same.
"""

from hashlib import blake2b


def which_session(*, named: tuple[str | None, ...], tenant: str, secret: bytes) -> str | None:
    """The session: a keyed hash of the first name that says something. None: nobody says."""
    said = next((each for each in named if each), None)
    if said is None:
        return None
    text = f"{len(tenant)}/{tenant}/{said}".encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=8, key=secret[:64], person=b"session").hexdigest()
