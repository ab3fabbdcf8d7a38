"""`python -m headrace.devkit.model_server --port 8002`: SmolLM2 behind llama.cpp's OpenAI-compatible server.

Started by model.ModelServer. All serving is xllamacpp's; this only hands it its parameters and waits.
"""

import argparse
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from headrace.devkit.model import ALIAS, CONTEXT, SLOTS, THREADS, model_file
from headrace.devkit.ports import LOOPBACK

SPARE_HTTP_THREADS = 8
LLAMA_CPP_WARNINGS_ONLY = 2


def read_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="headrace.devkit.model_server", description="SmolLM2 on the CPU.")
    parser.add_argument("--host", default=LOOPBACK, help="address to listen on (default: the loopback alone)")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", type=Path, default=None, help="a .gguf file (default: the wheel's)")
    parser.add_argument("--alias", default=ALIAS, help="the model name that callers ask for")
    parser.add_argument("--slots", type=int, default=SLOTS, help="requests that run at once")
    parser.add_argument("--context", type=int, default=CONTEXT, help="tokens a slot")
    parser.add_argument("--threads", type=int, default=THREADS)
    return parser.parse_args(argv)


def parameters(llama_cpp: ModuleType, arguments: argparse.Namespace) -> Any:  # noqa: ANN401 - compiled, no stubs
    """llama.cpp's parameters for these arguments."""
    params = llama_cpp.CommonParams()
    params.model.path = str(arguments.model or model_file())
    params.model_alias = {arguments.alias}
    params.hostnames, params.port = [arguments.host], arguments.port
    params.n_parallel, params.n_ctx = arguments.slots, arguments.slots * arguments.context
    # More than one thread on shared cores spins: 3 tokens/s with two threads where one gave 90.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = arguments.threads
    # One HTTP thread for each open request, queued ones too: with fewer, /health and /metrics starve.
    params.n_threads_http = 4 * arguments.slots + SPARE_HTTP_THREADS
    params.endpoint_metrics, params.ui = True, False
    params.verbosity = LLAMA_CPP_WARNINGS_ONLY
    return params


def main() -> None:
    """Serves until SIGTERM or SIGINT."""
    ending = {signal.SIGTERM, signal.SIGINT}
    # Blocked before the server makes its threads, so that only sigwait sees them.
    signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    llama_cpp = import_module("xllamacpp")
    server = llama_cpp.Server(parameters(llama_cpp, read_arguments()))
    sys.stderr.write(f"serving on {server.listening_address}\n")
    signal.sigwait(ending)


if __name__ == "__main__":
    main()
