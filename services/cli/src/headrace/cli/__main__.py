"""The entry point of `headrace` and of `python -m headrace.cli`: puts the commands together and tells errors.

Invariant: whatever goes wrong leaves as one sentence on standard error and a non-zero status, never as a traceback
(unless HEADRACE_TRACEBACK is set).
"""

import os
import sys

import typer

from headrace.cli.commands import (
    config,
    demo,
    dev,
    keys,
    policy,
    pools,
    queue,
    run,
    simulate,
    topics,
    version,
    why,
    workers,
)
from headrace.cli.trouble import sentence_of

FAILED = 1
INTERRUPTED = 130


def application() -> typer.Typer:
    """All commands."""
    app = typer.Typer(
        name="headrace",
        help="The durable, fair queue in front of LLM backends, on Apache Kafka.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.command("demo", short_help="Prompts of three tenants, a real Kafka, a real model: live.")(demo.demo)
    app.add_typer(dev.commands(), name="dev")
    app.add_typer(topics.commands(), name="topics")
    app.add_typer(pools.commands(), name="pools")
    app.add_typer(workers.commands(), name="workers")
    app.add_typer(queue.commands(), name="queue")
    app.command("why", short_help="Ask a pool's owner why a request isn't running.")(why.why)
    app.add_typer(config.commands(), name="config")
    app.add_typer(policy.commands(), name="policy")
    app.add_typer(keys.commands(), name="keys")
    app.command("simulate", short_help="Run a trace through the scheduler in virtual time.")(
        simulate.simulate
    )
    app.command("run")(run.run)
    app.command("version")(version.version)
    return app


def main() -> None:
    """Runs the command line; ends the process with its status."""
    try:
        application()()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:
        if os.environ.get("HEADRACE_TRACEBACK"):
            raise
        sys.stderr.write(f"headrace: {sentence_of(error)}\n")
        sys.exit(FAILED)


if __name__ == "__main__":
    main()
