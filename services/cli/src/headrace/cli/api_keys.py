"""API keys of tenants: a key is shown once; the policy keeps only its digest. Used by `headrace keys` and the stack."""

import secrets

from headrace.contracts.policy import hash_key

_PREFIX, _BYTES = "hr_", 32


def mint_key() -> str:
    """A new API key: 256 random bits, recognisable by its first letters in a leak scan."""
    return _PREFIX + secrets.token_urlsafe(_BYTES)


def policy_line(key: str) -> str:
    """The line of the policy that admits this key."""
    return f'key_sha256 = ["{hash_key(key)}"]'
