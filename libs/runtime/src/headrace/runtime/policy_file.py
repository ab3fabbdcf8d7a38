"""Reads the operator's policy file. Called by the services and by `headrace policy check`.

The shape is headrace.contracts.policy's; this module only says what is wrong with a file in a person's words.
Invariant: all mistakes of shape are told at once, each as `path.in.toml: sentence`.
"""

import re
import tomllib
import typing
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from headrace.contracts.durations import parse
from headrace.contracts.policy import Policy, policy_from
from headrace.runtime.suggestions import did_you_mean

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SHOWN_CHARACTERS = 60
_NAMES: dict[type, str] = {
    msgspec.inspect.BoolType: "true or false",
    msgspec.inspect.IntType: "an integer",
    msgspec.inspect.FloatType: "a number",
    msgspec.inspect.StrType: "a text",
    msgspec.inspect.NoneType: "nothing",
}
_BOUNDS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}


class PolicyError(Exception):
    """The policy file can't be used; `sentences` says why, one for each mistake."""

    def __init__(self, sentences: list[str]) -> None:
        super().__init__("\n".join(sentences))
        self.sentences = tuple(sentences)


def load_policy(path: Path) -> Policy:
    """The policy in a TOML file. Raises PolicyError."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PolicyError([f"{path}: the policy file can't be read ({error.strerror})."]) from None
    except ValueError as error:
        raise PolicyError([f"{path}: the policy file isn't valid TOML ({error})."]) from None
    except RecursionError:
        raise PolicyError(
            [f"{path}: the policy file isn't valid TOML (too many brackets in each other)."]
        ) from None
    return policy_of(document)


def policy_of(document: dict[str, Any]) -> Policy:
    """The policy in a parsed TOML document. Raises PolicyError."""
    if sentences := list(_mistakes(document, Policy, "")):
        raise PolicyError(sentences)
    try:
        return policy_from(document)
    except ValueError as error:
        raise PolicyError(str(error).split("; ")) from None


def _mistakes(value: object, wanted: Any, at: str) -> Iterator[str]:  # noqa: ANN401 any type of the contract
    if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
        yield from (
            _mistakes_in_table(value, wanted, at) if isinstance(value, dict) else _wrong(at, "a table", value)
        )
    elif typing.get_origin(wanted) is dict:
        yield from (
            _mistakes_in_names(value, wanted, at) if isinstance(value, dict) else _wrong(at, "a table", value)
        )
    elif (item := _struct_in(wanted)) is not None and isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _mistakes(inner, item, f"{at}[{number}]")
    elif wanted is timedelta or timedelta in typing.get_args(wanted):
        yield from _mistakes_in_duration(value, at)
    else:
        try:
            msgspec.convert(value, wanted, strict=True)
        except msgspec.ValidationError:
            yield from _wrong(at, _expectation(msgspec.inspect.type_info(wanted)), value)


def _struct_in(wanted: Any) -> type[msgspec.Struct] | None:  # noqa: ANN401
    """What an array of tables has in it; None for any other type."""
    item = (
        typing.get_args(typing.get_args(wanted)[0] if hasattr(wanted, "__metadata__") else wanted) or (None,)
    )[0]
    return item if isinstance(item, type) and issubclass(item, msgspec.Struct) else None


def _mistakes_in_table(value: dict[str, Any], wanted: type[msgspec.Struct], at: str) -> Iterator[str]:
    fields = {field.encode_name: field for field in msgspec.structs.fields(wanted)}
    for key, inner in value.items():
        if key in fields:
            yield from _mistakes(inner, fields[key].type, _below(at, key))
        else:
            yield f"{_below(at, key)}: unknown key, {did_you_mean(key, fields)}"
    for key, field in fields.items():
        if field.required and key not in value:
            yield f"{_below(at, key)}: missing"


def _mistakes_in_names(value: dict[str, Any], wanted: Any, at: str) -> Iterator[str]:  # noqa: ANN401
    name_type, inner_type = typing.get_args(wanted)
    for name, inner in value.items():
        try:
            msgspec.convert(name, name_type, strict=True)
        except msgspec.ValidationError:
            yield from _wrong(
                _below(at, name), "as name " + _expectation(msgspec.inspect.type_info(name_type)), name
            )
        yield from _mistakes(inner, inner_type, _below(at, name))


def _mistakes_in_duration(value: object, at: str) -> Iterator[str]:
    try:
        parse(value)
    except ValueError:
        yield from _wrong(at, 'a duration such as "500ms", "30s", "10m", "1h30m" or "7d"', value)


def _wrong(at: str, expected: str, value: object) -> Iterator[str]:
    yield f"{at}: expected {expected}, got {_shown(value)}"


def _below(at: str, key: str) -> str:
    key = key if _BARE_KEY.fullmatch(key) else f'"{key}"'
    return f"{at}.{key}" if at else key


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "an array"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _expectation(info: msgspec.inspect.Type) -> str:
    """A type of the contract as the object of "expected"."""
    if isinstance(info, msgspec.inspect.UnionType):
        return " or ".join(_expectation(t) for t in info.types if not isinstance(t, msgspec.inspect.NoneType))
    if isinstance(info, (msgspec.inspect.VarTupleType, msgspec.inspect.ListType)):
        return f"an array whose items are each {_expectation(info.item_type)}"
    bounds = [
        f"{sign} {getattr(info, name)}"
        for name, sign in _BOUNDS.items()
        if getattr(info, name, None) is not None
    ]
    pattern = getattr(info, "pattern", None)
    parts = [
        _NAMES.get(type(info), "something else"),
        " and ".join(bounds),
        f"like {pattern}" if pattern else "",
    ]
    return " ".join(part for part in parts if part)
