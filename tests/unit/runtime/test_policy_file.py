from datetime import timedelta
from pathlib import Path

import pytest

from headrace.runtime.policy_file import PolicyError, load_policy

POOLS = '[pools.small.models]\n"llama-3.1" = "llama"\n'


def mistakes(tmp_path: Path, text: str) -> tuple[str, ...]:
    file = tmp_path / "policy.toml"
    file.write_text(text)
    with pytest.raises(PolicyError) as caught:
        load_policy(file)
    return caught.value.sentences


def test_a_policy_file_is_read_with_its_durations(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(
        POOLS + '[tiers.standard]\nweight = 3\nqueue_timeout = "90s"\n[tenants.acme]\nweight = 2\n'
    )
    policy = load_policy(file)
    assert policy.tiers["standard"].queue_timeout.total_seconds() == 90
    assert policy.tenants["acme"].weight == 2
    assert policy.pool_of("llama-3.1") == "small"


def test_every_mistake_of_shape_is_told_at_once_with_its_path(tmp_path: Path) -> None:
    text = """
        [pools.small]
        max_attempts = true
        modles = {}
        [pools.big.models]
        "llama-3.1" = 3
        [tiers.batch]
        weight = "x"
        queue_timeout = 30
        [tiers.Loud]
        weight = 0
        [tenants]
        acme = 1
        [tenants.zeta]
        key_sha256 = ["nope"]
        tiers = "standard"
        """
    told = mistakes(tmp_path, text)
    assert told == (
        "pools.small.max_attempts: expected an integer >= 1 and <= 100, got true",
        'pools.small.modles: unknown key, did you mean "models"?',
        "pools.small.models: missing",
        'pools.big.models."llama-3.1": expected a text, got 3',
        'tiers.batch.weight: expected an integer >= 1 and <= 1000000, got "x"',
        'tiers.batch.queue_timeout: expected a duration such as "500ms", "30s", "10m", "1h30m" or "7d", got 30',
        'tiers.Loud: expected as name a text like ^[a-z0-9][a-z0-9_-]{0,31}$, got "Loud"',
        "tiers.Loud.weight: expected an integer >= 1 and <= 1000000, got 0",
        "tenants.acme: expected a table, got 1",
        "tenants.zeta.key_sha256: expected an array whose items are each a text like ^[0-9a-f]{64}$, got an array",
        'tenants.zeta.tiers: expected an array whose items are each a text like ^[a-z0-9][a-z0-9_-]{0,31}$, got "standard"',
    )


def test_what_is_well_formed_but_cannot_be_meant_is_told_too(tmp_path: Path) -> None:
    told = mistakes(
        tmp_path, POOLS + '[tenants.acme]\ndefault_tier = "gold"\n[tenants.b]\ntiers = ["gold"]\n'
    )
    assert "tenants.acme: there is no tier 'gold'" in told
    assert any(sentence.startswith("tenants.b") for sentence in told)


def test_a_file_that_is_missing_or_no_toml_is_told_by_name(tmp_path: Path) -> None:
    assert "isn't valid TOML" in mistakes(tmp_path, "=")[0]
    with pytest.raises(
        PolicyError, match=r"none\.toml: the policy file can't be read \(No such file or directory\)"
    ):
        load_policy(tmp_path / "none.toml")


def test_mistakes_in_an_array_of_tables_are_told_with_their_number(tmp_path: Path) -> None:
    told = mistakes(
        tmp_path, POOLS + "[tenants.acme]\nceilings = [{ tokens = 5 }, { tokns = 5, per = 60 }, 3]\n"
    )
    assert told == (
        'tenants.acme.ceilings[1].tokns: unknown key, did you mean "tokens"?',
        'tenants.acme.ceilings[1].per: expected a duration such as "500ms", "30s", "10m", "1h30m" or "7d", got 60',
        "tenants.acme.ceilings[2]: expected a table, got 3",
    )
    assert mistakes(tmp_path, POOLS + "[tenants.acme]\nceilings = 3\n") != ()


def test_durations_that_may_be_left_out_are_texts_like_all_others(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    fallback = '[[pools.small.fallbacks]]\npool = "other"\nwait_above = "20s"\n'
    text = '[keep]\nresults = "30d"\n[pools.other.models]\nother = "other"\n' + fallback + POOLS
    file.write_text(text)
    policy = load_policy(file)
    assert (policy.keep.results, policy.pools["small"].fallbacks[0].wait_above) == (
        timedelta(days=30),
        timedelta(seconds=20),
    )
    (sentence,) = mistakes(tmp_path, text.replace('"20s"', '"soon"'))
    assert sentence.startswith('pools.small.fallbacks[0].wait_above: expected a duration such as "500ms"')
