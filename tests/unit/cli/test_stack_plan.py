"""What a development stack is made of: the policy's text, the keys, the children's environment."""

import tomllib
from pathlib import Path

import pytest

from headrace.cli.demo.prompts import WEIGHTS
from headrace.cli.stack.plan import admit, policy_for
from headrace.cli.stack.processes import environment_of
from headrace.contracts.policy import policy_from
from headrace.runtime.settings import ServiceSettings


def test_every_tenant_without_a_key_gets_one_that_the_policy_admits() -> None:
    admitted = admit(policy_for(WEIGHTS, {"smollm2": {"smollm2": "smollm2"}}))
    policy = policy_from(tomllib.loads(admitted.text))
    assert {policy.tenant_of(key) for key in admitted.keys.values()} == set(WEIGHTS)
    assert policy.tenants["atlas"].weight == WEIGHTS["atlas"]


def test_a_tenants_own_key_is_kept() -> None:
    text = f'[pools.a.models]\nm = "m"\n[tenants.x]\nkey_sha256 = ["{"0" * 64}"]\n[tenants.y]\n'
    assert set(admit(text).keys) == {"y"}
    assert "0" * 64 in admit(text).text


def test_a_child_gets_only_the_settings_of_its_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_KAFKA", "elsewhere:1")
    env = environment_of(ServiceSettings, {"kafka": "127.0.0.1:9", "policy": Path("p.toml")})
    assert {name: value for name, value in env.items() if name.startswith("HEADRACE_")} == {
        "HEADRACE_KAFKA": "127.0.0.1:9",
        "HEADRACE_POLICY": "p.toml",
    }


def test_a_setting_that_a_service_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="has no colour"):
        environment_of(ServiceSettings, {"colour": "blue"})
