"""What only a person can mend. Raised where a service finds out; its supervisor tells it as a sentence, with no traceback."""


class CannotRunError(Exception):
    """The service can't run as it was configured, or on what it found; the message says what differs and what mends it."""
