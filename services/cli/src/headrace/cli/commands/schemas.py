"""`headrace dev schemas`: renders schemas/ from the contracts, and the HTTP API's from ingest."""

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.options import AsJson
from headrace.cli.terminal import say, say_json
from headrace.cli.trouble import part


def rendered() -> dict[str, str]:
    """Each file below schemas/ and its text. Raises Trouble where a part isn't installed."""
    files: dict[str, str] = dict(part("headrace.contracts.rendering").render())
    openapi: str = part("headrace.ingest.openapi").render()
    return {**files, "openapi.json": openapi}


def schemas(
    folder: Annotated[Path, typer.Option(help="Where they go.")] = Path("schemas"),
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 when a file differs.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Render schemas/ from the contracts, and openapi.json from ingest."""
    files = rendered()
    stale = [name for name, text in files.items() if _text(folder / name) != text]
    if not check:
        for name in stale:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(files[name])
    if as_json:
        say_json({"folder": str(folder), "files": len(files), "changed": stale})
    else:
        _tell(folder, len(files), stale, check=check)
    if check and stale:
        raise typer.Exit(1)


def _tell(folder: Path, count: int, stale: list[str], *, check: bool) -> None:
    for name in stale:
        say(f"{'differs' if check else 'wrote'}: {folder / name}")
    if check and stale:
        say("`headrace dev schemas` renders them again.")
    elif not stale:
        say(f"all {count} files in {folder} are as the code says")


def _text(path: Path) -> str | None:
    return path.read_text() if path.is_file() else None
