"""What a service would be told, and by whom: the content of `headrace config show`.

Invariant: it works on wrong and on missing settings too, for that is when people ask, and shows no secret.
"""

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal

from msgspec import Struct
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from headrace.contracts import durations
from headrace.runtime.settings import ServiceSettings
from headrace.runtime.settings_loading import MASK, is_secret, masked, sentences
from headrace.runtime.settings_sources import Gathered, env_names, gather


class Explained(Struct, frozen=True):
    """One setting as it stands."""

    name: str
    env: str
    """The variable that sets it."""
    value: str
    """The effective value, masked; empty when unset or missing."""
    default: str
    source: Literal["env", "file", "default", "missing"]
    where: str
    """The variable or the key and file it came from; empty for a default."""
    description: str
    problem: str = ""
    """What is wrong with it, in a sentence; empty when nothing is."""


def explain(
    cls: type[ServiceSettings], environ: Mapping[str, str] | None = None
) -> tuple[list[Explained], list[str]]:
    """Each field of `cls` as it would be loaded, and the sentences that belong to no single field."""
    gathered = gather(cls, os.environ if environ is None else environ)
    settings, problems = _try(cls, gathered)
    rows = [_explained(cls, name, gathered, settings, problems) for name in cls.model_fields]
    general = [sentence for name, sentence in problems.items() if name not in cls.model_fields]
    return rows, gathered.problems + general


def _try(cls: type[ServiceSettings], gathered: Gathered) -> tuple[ServiceSettings | None, dict[str, str]]:
    values: dict[str, Any] = {name: found.value for name, found in gathered.found.items()}
    try:
        return cls(**values), {}
    except ValidationError as error:
        return None, sentences(cls, gathered, error)


def _explained(
    cls: type[ServiceSettings],
    name: str,
    gathered: Gathered,
    settings: ServiceSettings | None,
    problems: Mapping[str, str],
) -> Explained:
    info, found = cls.model_fields[name], gathered.found.get(name)
    default = (
        ""
        if info.is_required()
        else _shown(info, info.get_default(call_default_factory=True, validated_data={}))
    )
    value = default if found is None else _shown(info, found.value)
    if settings is not None:
        value = _shown(info, getattr(settings, name))
    return Explained(
        name=name,
        env=env_names(cls, name)[-1],
        value=value,
        default=default,
        source=found.source if found else "missing" if info.is_required() else "default",
        where=found.where if found else "",
        description=info.description or "",
        problem=problems.get(name, ""),
    )


def _shown(info: FieldInfo, value: object) -> str:
    if value is None:
        return ""
    if is_secret(info.annotation):
        return MASK
    if isinstance(value, timedelta):
        return durations.render(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return masked(",".join(str(part) for part in value))
    return masked(value)
