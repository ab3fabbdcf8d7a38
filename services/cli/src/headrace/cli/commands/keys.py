"""`headrace keys`: API keys for tenants."""

import typer

from headrace.cli.api_keys import mint_key, policy_line
from headrace.cli.options import AsJson
from headrace.cli.terminal import say, say_json
from headrace.contracts.policy import hash_key


def commands() -> typer.Typer:
    """The group `keys`."""
    app = typer.Typer(help="API keys of tenants.", no_args_is_help=True)
    app.command("new")(new)
    app.callback()(lambda: None)
    return app


def new(as_json: AsJson = False) -> None:
    """Print a new API key, and the line that admits it in the policy."""
    key = mint_key()
    if as_json:
        say_json({"key": key, "sha256": hash_key(key), "policy_line": policy_line(key)})
        return
    say("API key, for the tenant; it is shown only now:")
    say(f"  {key}")
    say()
    say("Line for the policy file, below [tenants.NAME]:")
    say(f"  {policy_line(key)}")
