"""`headrace policy check FILE`: what is wrong with a policy file, before a service is told to use it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.options import AsJson
from headrace.cli.terminal import say, say_json
from headrace.contracts.policy import Policy
from headrace.runtime.policy_file import PolicyError, load_policy


def commands() -> typer.Typer:
    """The group `policy`."""
    app = typer.Typer(help="The policy file: tiers, pools, tenants, topics.", no_args_is_help=True)
    app.command("check")(check)
    app.callback()(lambda: None)
    return app


def check(
    file: Annotated[Path, typer.Argument(help="The policy file, TOML.")], as_json: AsJson = False
) -> None:
    """Say everything that is wrong with a policy file. Exits 1 when something is."""
    try:
        policy, mistakes = load_policy(file), list[str]()
    except PolicyError as error:
        policy, mistakes = None, list(error.sentences)
    remarks = [] if policy is None else list(remarks_on(policy))
    if as_json:
        say_json({"file": str(file), "good": not mistakes, "mistakes": mistakes, "remarks": remarks})
    else:
        _tell(file, policy, mistakes, remarks)
    if mistakes:
        raise typer.Exit(1)


def remarks_on(policy: Policy) -> Iterator[str]:
    """What is allowed but seldom meant, one sentence each."""
    if not policy.tenants:
        yield "there are no tenants, so nobody can submit anything: add [tenants.NAME]"
    for name, tenant in policy.tenants.items():
        if not tenant.key_sha256:
            yield f"tenants.{name} has no key, so it can't submit anything: `headrace keys new` makes one"
    for name, pool in policy.pools.items():
        if not pool.models:
            yield f"pools.{name} serves no model, so nothing reaches it: add a line to [pools.{name}.models]"


def _tell(file: Path, policy: Policy | None, mistakes: list[str], remarks: list[str]) -> None:
    for sentence in mistakes:
        say(sentence)
    if policy is None:
        say(f"{file} can't be used: mend the above and check again.")
        return
    say(
        f"{file} is good: tiers {', '.join(policy.tiers)}; pools {', '.join(policy.pools)}; "
        f"tenants {', '.join(policy.tenants) or 'none'}."
    )
    for sentence in remarks:
        say(f"remark: {sentence}")
