"""Runs something that was started for a developer until Ctrl-C. Called by `headrace dev kafka|model|engine`.

Invariant: however it ends, nothing that was started stays.
"""

from collections.abc import Callable
from contextlib import ExitStack

from headrace.cli.terminal import say, say_json
from headrace.cli.until_stopped import Interrupted, until_stopped
from headrace.devkit.started import Started


def run_until_stopped(server: Started, about: Callable[[], tuple[str, str]], *, as_json: bool) -> None:
    """Starts it, says where it is, waits for the signal, stops it."""
    with until_stopped() as stopped, ExitStack() as undo:
        stopped.eager = True
        try:
            undo.callback(server.stop)
            undo.callback(stopped.calm)
            server.start()
            what, address = about()
            if as_json:
                say_json({what: address})
            else:
                say(f"{what} answers at {address}; Ctrl-C stops it.")
            stopped.calm()
            stopped.wait()
        except Interrupted:
            return
