"""How benchmarks talk. Used by those beside this file."""


def say(line: str) -> None:
    """For who watches."""
    print(line, flush=True)  # noqa: T201
