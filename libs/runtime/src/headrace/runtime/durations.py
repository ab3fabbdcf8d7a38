"""Field types for durations in settings: headrace.contracts.durations says how they are written."""

from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, PlainSerializer

from headrace.contracts.durations import parse, render

Duration = Annotated[timedelta, BeforeValidator(parse), PlainSerializer(render, return_type=str)]
"""A settings field of this type accepts and renders durations as above."""


def _positive(duration: timedelta) -> timedelta:
    if duration <= timedelta():
        raise ValueError("expected a duration longer than 0s")
    return duration


PositiveDuration = Annotated[Duration, AfterValidator(_positive)]
"""As `Duration`, and longer than nothing."""
