"""Options that several commands share, and the settings they give. Called by the commands.

Invariant: an option is stronger than the environment and the settings file, which are what the services read.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.option_groups import OptionGroup
from headrace.cli.trouble import Trouble
from headrace.contracts.policy import Policy
from headrace.contracts.topics import Topic, TopicNames, required_topics
from headrace.runtime.policy_file import load_policy
from headrace.runtime.settings import ServiceSettings
from headrace.runtime.settings_loading import load

AsJson = Annotated[bool, typer.Option("--json", help="JSON, for programs.")]
Kafka = Annotated[
    str | None, typer.Option("--kafka", help="Bootstrap servers, host:port; default: HEADRACE_KAFKA.")
]
Prefix = Annotated[
    str | None, typer.Option("--prefix", help="What topic names begin with; default: HEADRACE_PREFIX.")
]
PolicyFile = Annotated[
    Path | None, typer.Option("--policy", help="The policy file; default: HEADRACE_POLICY.")
]


@dataclass(frozen=True)
class Where(OptionGroup):
    """The pools and the brokers that a command means."""

    policy: PolicyFile = None
    kafka: Kafka = None
    prefix: Prefix = None

    def settings(self) -> ServiceSettings:
        """As settings_of."""
        return settings_of(policy=self.policy, kafka=self.kafka, prefix=self.prefix)


def settings_of(**given: object) -> ServiceSettings:
    """The settings that all services share, with the options given on the command line on top. Raises SettingsError."""
    return load(ServiceSettings, None, **{name: value for name, value in given.items() if value is not None})


def policy_of(settings: ServiceSettings) -> Policy:
    """The policy these settings name. Raises PolicyError; Trouble when none is named."""
    if settings.policy is None:
        raise Trouble(
            "no policy file is named: give --policy FILE, or set HEADRACE_POLICY (see examples/policy.toml)"
        )
    return load_policy(settings.policy)


def require_pool(settings: ServiceSettings, pool: str) -> None:
    """Raises Trouble when the policy doesn't have it; what `policy_of` raises."""
    if pool not in (known := policy_of(settings).pools):
        raise Trouble(f"the policy has no pool {pool}; it has {', '.join(known)}")


def topics_of(policy: Policy, prefix: str) -> list[Topic]:
    """Every topic that must exist under this policy."""
    counts = policy.topics.counts()
    return list(required_topics(TopicNames(prefix), counts, pools=policy.pools, tiers=policy.tiers))
