"""Where settings are written down: the environment and one TOML file. Called by settings_loading and settings_explained.

Invariant: every value found is kept with the place it came from, and every name that nobody reads becomes a sentence.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec

from headrace.runtime.settings import SERVICES, SHARED_BY_SOME, ServiceSettings
from headrace.runtime.suggestions import closest, did_you_mean

PREFIX = "HEADRACE_"
CONFIG = "HEADRACE_CONFIG"

# A typo in a common name is only guessed at when it is this close: other programs may have HEADRACE_ names of their own.
_SURELY_A_TYPO = 0.85
_SERVICE_LINK = re.compile(r"_(SERVICE_(HOST|PORT(_\w+)?)|PORT_\d+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?)$")
_SHARED = frozenset(ServiceSettings.model_fields) | SHARED_BY_SOME
_SEVERAL: tuple[type, ...] = (list, tuple, set, frozenset)


@dataclass(frozen=True)
class Found:
    """A value as written, and where."""

    value: object
    source: Literal["env", "file"]
    where: str
    """The variable's name, or the key and the file."""


@dataclass
class Gathered:
    """All that was found for one class of settings, by field, and a sentence for each name that is wrong."""

    found: dict[str, Found] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def env_names(cls: type[ServiceSettings], name: str) -> tuple[str, ...]:
    """The variables that set a field, the strongest first; the last is the one to tell people about."""
    shared = name in _SHARED
    own = (f"{_own_prefix(cls)}{name.upper()}",) if cls.service else ()
    return (*own, f"{PREFIX}{name.upper()}") if shared else own


def gather(cls: type[ServiceSettings], environ: Mapping[str, str]) -> Gathered:
    """Reads the environment and the file it names; raises nothing."""
    environ = _without_service_links(environ)
    gathered = Gathered()
    if path := environ.get(CONFIG):
        _read_file(cls, Path(path), gathered)
    for name, info in cls.model_fields.items():
        for env in reversed(env_names(cls, name)):
            if text := environ.get(
                env
            ):  # an empty one counts as absent: charts and compose files write those
                gathered.found[name] = _from_env(env, text, info.annotation)
    gathered.problems += _unknown_variables(cls, environ)
    return gathered


def _own_prefix(cls: type[ServiceSettings]) -> str:
    return f"{PREFIX}{cls.service.upper()}_"


def _from_env(env: str, text: str, annotation: object) -> Found:
    """Lists may be written with commas, lists and tables as JSON."""
    value: object = text
    origin = get_origin(annotation) or annotation
    if any(get_origin(a) in _SEVERAL for a in get_args(annotation)):
        origin = list
    if origin in (*_SEVERAL, dict) and text.lstrip()[:1] in ("[", "{"):
        try:
            value = msgspec.json.decode(text)
        except msgspec.DecodeError:
            value = text
    elif origin in _SEVERAL:
        value = [part.strip() for part in text.split(",")]
    return Found(value, "env", env)


def _read_file(cls: type[ServiceSettings], path: Path, gathered: Gathered) -> None:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        gathered.problems.append(f"{CONFIG} is {path}: the file can't be read ({error.strerror}).")
        return
    except ValueError as error:
        gathered.problems.append(f"{CONFIG} is {path}: the file isn't valid TOML ({error}).")
        return
    own = content.pop(cls.service, {}) if cls.service else {}
    tables = {*SERVICES, cls.service} - {""}
    shared = {key: value for key, value in content.items() if key not in tables}
    _take(gathered, path, "", shared, set(_SHARED), tables)
    for name in SHARED_BY_SOME - set(cls.model_fields):
        gathered.found.pop(name, None)
    if isinstance(own, dict):
        _take(gathered, path, f"{cls.service}.", own, set(cls.model_fields), set())
    else:
        gathered.problems.append(
            f"{cls.service} in {path} is no table: write [{cls.service}] and its settings below."
        )


def _take(
    gathered: Gathered, path: Path, at: str, values: dict[str, Any], known: set[str], tables: set[str]
) -> None:
    for key, value in values.items():
        if key in known:
            gathered.found[key] = Found(value, "file", f"{at}{key} in {path}")
        else:
            gathered.problems.append(f"{at}{key} in {path} is unknown: {did_you_mean(key, known | tables)}")


def _unknown_variables(cls: type[ServiceSettings], environ: Mapping[str, str]) -> list[str]:
    known = {env for name in cls.model_fields for env in env_names(cls, name)} | {CONFIG}
    elsewhere = tuple(f"{PREFIX}{service.upper()}_" for service in SERVICES if service != cls.service)
    sentences = []
    for env in sorted(environ):
        if not env.startswith(PREFIX) or env in known or env.startswith(elsewhere):
            continue
        if cls.service and env.startswith(_own_prefix(cls)):
            own = {name for name in known if name.startswith(_own_prefix(cls))}
            sentences.append(f"{env} is unknown: {did_you_mean(env, own)}")
        elif meant := closest(
            env.removeprefix(PREFIX), (k.removeprefix(PREFIX) for k in known), _SURELY_A_TYPO
        ):
            sentences.append(f'{env} is unknown: did you mean "{PREFIX}{meant}"?')
    return sentences


def _without_service_links(environ: Mapping[str, str]) -> dict[str, str]:
    """Kubernetes writes HEADRACE_INGEST_PORT=tcp://… into every pod beside a Service named headrace-ingest."""
    hosts = {env.removesuffix("_SERVICE_HOST") for env in environ if env.endswith("_SERVICE_HOST")}

    def is_link(env: str, value: str) -> bool:
        if _SERVICE_LINK.sub("", env) in hosts and _SERVICE_LINK.search(env):
            return True
        return env.removesuffix("_PORT") in hosts and "://" in value

    return {env: value for env, value in environ.items() if not is_link(env, value)}
