"""Builds a service's settings, or says what is wrong with them. Called first in each `__main__.py`.

Invariant: all mistakes are told at once, one sentence each, with the name to change, and no secret among them.
"""

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar, get_args

from pydantic import SecretBytes, SecretStr, ValidationError
from pydantic_core import ErrorDetails

from headrace.runtime.settings import ServiceSettings
from headrace.runtime.settings_sources import Found, Gathered, env_names, gather

S = TypeVar("S", bound=ServiceSettings)

MASK = "****"
WRONG_SETTINGS = 2
"""Exit status of a process that was told nonsense, as for wrong command-line options."""

_URL_PASSWORD = re.compile(r"(://[^:@/\s]*:)\S*@")
_SHOWN_CHARACTERS = 200


class SettingsError(Exception):
    """The settings can't be used; `sentences` says why, one for each mistake."""

    def __init__(self, sentences: list[str]) -> None:
        super().__init__("\n".join(sentences))
        self.sentences = tuple(sentences)


def load(cls: type[S], environ: Mapping[str, str] | None = None, **given: object) -> S:
    """The settings from environment and file; `given` (command-line options, tests) is stronger than both.

    Raises SettingsError.
    """
    gathered = gather(cls, os.environ if environ is None else environ)
    try:
        values: dict[str, Any] = {name: found.value for name, found in gathered.found.items()}
        settings = cls(**{**values, **given})
    except ValidationError as error:
        overridden = {name: found for name, found in gathered.found.items() if name not in given}
        told = sentences(cls, replace(gathered, found=overridden), error)
        raise SettingsError(gathered.problems + list(told.values())) from None
    if gathered.problems:
        raise SettingsError(gathered.problems)
    return settings


def load_or_exit(cls: type[S], environ: Mapping[str, str] | None = None, **given: object) -> S:
    """As `load`; mistakes go to standard error and end the process with status 2, without a traceback."""
    try:
        return load(cls, environ, **given)
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(WRONG_SETTINGS) from None


def sentences(cls: type[ServiceSettings], gathered: Gathered, error: ValidationError) -> dict[str, str]:
    """One sentence for each wrong field, by field; a rule over several fields stands under the empty name."""
    told: dict[str, str] = {}
    for detail in error.errors(include_url=False):
        name = str(detail["loc"][0]) if detail["loc"] else ""
        told.setdefault(name, _sentence(cls, name, gathered.found.get(name), detail))
    return told


def is_secret(annotation: object) -> bool:
    """Whether a field of this type holds something nobody may read in a log or on a screen."""
    return annotation in (SecretStr, SecretBytes) or any(is_secret(part) for part in get_args(annotation))


def masked(value: object) -> str:
    """A value as people may see it: passwords in URLs replaced, length bounded."""
    text = _URL_PASSWORD.sub(rf"\1{MASK}@", str(value))
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}… ({len(text)} characters)"


def _sentence(cls: type[ServiceSettings], name: str, found: Found | None, detail: ErrorDetails) -> str:
    expected = _expected(detail["msg"])
    info = cls.model_fields.get(name)
    if info is None:
        return f"{name}: {expected}." if name else f"{expected}."
    where = found.where if found else env_names(cls, name)[-1]
    about = info.description or name
    if detail["type"] == "missing":
        return f"{where} is missing: {about}."
    value = found.value if found else detail["input"]
    shown = MASK if is_secret(info.annotation) else f'"{masked(value)}"'
    return f"{where} is {shown}: {expected} ({about})."


def _expected(message: str) -> str:
    """Pydantic's message as the end of our sentence."""
    message = message.removeprefix("Value error, ").split(", unable to")[0]
    message = re.sub(r"^Input should be (?=greater|less)", "expected a value ", message)
    message = re.sub(r"^Input should (be|have) ", "expected ", message)
    return re.sub(r"^(String|List|Tuple) should ", r"expected it to ", message)
