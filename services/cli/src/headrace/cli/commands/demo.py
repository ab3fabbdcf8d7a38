"""`headrace demo`."""


def demo() -> None:
    """Not yet."""
