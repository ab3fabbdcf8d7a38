"""What went wrong, as a sentence that says what to do next. Used by every command; told by __main__ alone."""

from importlib import import_module
from types import ModuleType

INSTALL = "install the whole of it: pip install 'headrace[all]'"


class Trouble(Exception):  # noqa: N818 - reads as what happened
    """A command can't do what it was asked; the message says why, and what to do."""


def sentence_of(error: BaseException) -> str:
    """What a person is told. Our own errors are sentences already; others get their type and a way on."""
    if isinstance(error, BaseExceptionGroup):
        return sentence_of(error.exceptions[0])
    told = str(error).strip()
    if type(error).__module__.startswith("headrace.") and told:
        return told
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, ValueError) and told:
        return told
    what = f"{type(error).__name__}: {told}" if told else type(error).__name__
    return f"{what}. This should not happen: set HEADRACE_TRACEBACK=1 to see where, and report it."


def part(module: str) -> ModuleType:
    """A module of a part that may not be installed. Raises Trouble with the line that installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise Trouble(f"{module} can't be loaded, {error.name} is not installed: {INSTALL}") from error
