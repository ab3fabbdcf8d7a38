"""`headrace simulate --plots`: pictures that can be read, the same for the same runs, and a sentence where none can be."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec

from tests.unit.cli.conftest import Simulate

NAMES = {"waits-by-tier", "waits-by-tenant", "goodput", "fairness", "pool"}
UNITS = {
    "waits-by-tier": ("wait (seconds)", "time of arrival (minutes)"),
    "waits-by-tenant": ("wait (seconds)", "tenant"),
    "goodput": ("goodput (% of capacity)", "time (minutes)"),
    "fairness": ("gap (seconds of the whole pool's work)", "time (minutes)"),
    "pool": ("slots busy (%)", "engine queue (requests)", "waiting (requests)", "time (minutes)"),
}


def texts_of(path: Path) -> set[str]:
    """What can be read in a picture, and found by whoever searches in it."""
    words = [
        element.text or ""
        for element in ET.fromstring(path.read_text()).iter()  # noqa: S314 our own
        if element.tag.endswith("}text")
    ]
    return {word.strip() for word in words}


def test_each_picture_has_its_lines_named_and_its_axes_with_units(simulate: Simulate) -> None:
    status, out, _ = simulate(
        "--compare", "fifo,headrace", "--load", "2", "--seeds", "0..1", "--plots", "drawn"
    )
    assert status == 0
    paths = {path.stem: path for path in Path("drawn").iterdir()}
    assert set(paths) == NAMES
    assert all(f"wrote: drawn/{name}.svg" in out for name in NAMES)
    for name, path in paths.items():
        found = texts_of(path)
        assert set(UNITS[name]) <= found, name
        assert {"fifo", "headrace"} <= found, name
        assert path.stat().st_size < 60_000
        sizes = {int(size) for size in re.findall(r'font-size="(\d+)"', path.read_text())}
        assert min(sizes) >= 12, name
    assert "headrace: bound" in texts_of(paths["fairness"])
    assert {"atlas", "birch"} <= texts_of(paths["waits-by-tenant"])


def test_the_same_runs_make_the_same_bytes(simulate: Simulate) -> None:
    for folder in ("one", "other"):
        assert simulate("--seeds", "0", "--json", "--plots", folder)[0] == 0
    for name in NAMES:
        assert Path("one", f"{name}.svg").read_bytes() == Path("other", f"{name}.svg").read_bytes()


def test_json_stays_json(simulate: Simulate) -> None:
    status, out, _ = simulate("--seeds", "0", "--json", "--plots", "drawn")
    assert status == 0
    assert set(msgspec.json.decode(out)) == {"headrace"}


def test_a_folder_that_cant_be_made_is_told(simulate: Simulate) -> None:
    Path("file").write_text("")
    status, out, err = simulate("--plots", "file/drawn")
    assert (status, out) == (2, "")
    assert "--plots: the folder file/drawn can't be made" in err
