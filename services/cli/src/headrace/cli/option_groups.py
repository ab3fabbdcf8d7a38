"""Lets a command take the options that it shares with others as one argument. Used by cli.options and the commands.

Typer makes an option of each parameter of a command, and of nothing else. Invariant: for whoever types the command, an option
in a group is one like any other.
"""

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from inspect import Parameter, Signature, signature


class OptionGroup:
    """A dataclass of options, each with its default: every field is annotated as typer takes a parameter."""


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """This command with the options of each group that it takes in place of the group."""
    taken = signature(command).parameters
    groups = {name: each.annotation for name, each in taken.items() if _is_group(each)}

    @wraps(command)
    def run(**given: object) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    options = (option for each in taken.values() for option in _options_of(each))
    run.__signature__ = Signature(list(options))  # type: ignore[attr-defined]  # what typer reads
    return run


def _is_group(parameter: Parameter) -> bool:
    return isinstance(parameter.annotation, type) and issubclass(parameter.annotation, OptionGroup)


def _options_of(parameter: Parameter) -> list[Parameter]:
    if not _is_group(parameter):
        return [parameter]
    options = signature(parameter.annotation).parameters.values()
    return [option.replace(kind=Parameter.KEYWORD_ONLY) for option in options]
