"""One module for each group of commands; each builds its own typer application in `commands()`."""
