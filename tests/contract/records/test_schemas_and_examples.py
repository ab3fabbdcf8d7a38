"""schemas/ says what the code does, and every released header can still be read, with all that it says."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from headrace.contracts.codec import RECORDS, decode, encode
from headrace.contracts.rendering import file_stem, record_types, render
from headrace.contracts.topics import TopicKind

ROOT = Path(__file__).resolve().parents[3]
SCHEMAS = ROOT / "schemas"
KINDS = {file_stem(kind): kind for kind in RECORDS}
EXAMPLES = sorted((SCHEMAS / "examples").glob("*/*.json"))


def missing_examples(folder: Path) -> list[str]:
    """`topic/record` of each record type without an example."""
    names = [f"{stem}/{tag}" for stem, kind in KINDS.items() for tag in record_types(kind)]
    return [name for name in names if not list(folder.glob(f"{name}.v*.json"))]


def stale_files(folder: Path) -> list[str]:
    """What differs from the rendering."""
    return [
        name
        for name, text in render().items()
        if not (folder / name).is_file() or (folder / name).read_text() != text
    ]


def says_all_of(document: Any, example: Any) -> bool:
    """Whether nothing of the example was lost; more may have come."""
    if isinstance(example, dict):
        return all(key in document and says_all_of(document[key], value) for key, value in example.items())
    return bool(document == example)


def kind_of(path: Path) -> TopicKind:
    return KINDS[path.parent.name]


def test_schemas_are_as_the_code_says() -> None:
    assert stale_files(SCHEMAS) == [], "run `make schemas` and commit what it wrote"


def test_a_stale_file_and_a_missing_example_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "topics.json").write_text("{}\n")
    assert "topics.json" in stale_files(tmp_path)
    assert "results/result" in missing_examples(tmp_path)


def test_every_record_type_has_an_example() -> None:
    assert missing_examples(SCHEMAS / "examples") == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_released_header_is_read_and_written_again_with_all_it_says(path: Path) -> None:
    header = path.read_bytes()
    record = decode(kind_of(path), header)
    again = encode(record)
    assert says_all_of(msgspec.json.decode(again), msgspec.json.decode(header))
    assert decode(kind_of(path), again) == record
    assert record.__struct_config__.tag == path.name.partition(".")[0]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_an_example_fits_the_schema_and_names_only_known_fields(path: Path) -> None:
    document = msgspec.json.decode(path.read_bytes())
    schema = msgspec.json.decode((SCHEMAS / f"messages/{path.parent.name}.schema.json").read_bytes())
    jsonschema.Draft202012Validator(schema).validate(document)
    if path.name.endswith(".v1.json"):
        fields = record_types(kind_of(path))[path.name.partition(".")[0]].__struct_encode_fields__
        assert set(document) <= {"type", *fields}


def test_the_rendering_is_the_same_under_every_hash_seed() -> None:
    script = "from headrace.contracts.rendering import render; print(repr(render()))"

    def rendered(seed: str) -> bytes:
        env = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run([sys.executable, "-c", script], env=env, check=True, capture_output=True).stdout

    assert rendered("1") == rendered("2")
