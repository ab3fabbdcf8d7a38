"""What sort of answer a body asks for: how long answers are differs by it. Called by read_submission.

Invariant: only estimates rest on it; whatever the body says, it is answered all the same.
"""

from collections.abc import Mapping

import msgspec

from headrace.ingest.decisions.is_plain_text import is_off

_SIGNS = {
    "reasoning": ("reasoning_effort", "reasoning", "thinking"),
    "tools": ("tools", "functions"),
    "schema": (
        "response_format",
        "structured_outputs",
        "guided_json",
        "guided_grammar",
        "json_schema",
        "grammar",
    ),
}
"""The first sort of which a field is there counts: thinking makes any answer longer than its form does."""


def which_answer(fields: Mapping[str, msgspec.Raw]) -> str:
    """`reasoning`, `tools`, `schema` or `plain`."""
    asked = {name for name, raw in fields.items() if not is_off(name, raw)}
    return next((sort for sort, signs in _SIGNS.items() if asked.intersection(signs)), "plain")
