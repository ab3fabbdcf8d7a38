"""`headrace version`."""

from importlib import metadata

from headrace.cli.options import AsJson
from headrace.cli.terminal import say, say_json


def version(as_json: AsJson = False) -> None:
    """Print the version."""
    number = metadata.version("headrace")
    say_json({"version": number}) if as_json else say(number)
