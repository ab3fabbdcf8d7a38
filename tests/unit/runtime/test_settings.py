from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import ClassVar, Literal

import pytest
from pydantic import Field, SecretStr

from headrace.runtime.durations import PositiveDuration
from headrace.runtime.settings import ServiceSettings
from headrace.runtime.settings_explained import Explained, explain
from headrace.runtime.settings_loading import SettingsError, load, load_or_exit


class IngestLike(ServiceSettings):
    """Settings of a service with each kind of field."""

    service: ClassVar[str] = "ingest"
    health_port: int = Field(9101, description="health port")

    keys_file: Path = Field(description="TOML file of API keys")
    port: int = Field(8080, ge=1, le=65535, description="port to listen on")
    patience: PositiveDuration = Field(timedelta(seconds=30), description="longest wait")
    pools: tuple[str, ...] = Field((), description="pools served")
    labels: dict[str, int] = Field(default_factory=dict, description="labels")
    database: str = Field("sqlite://", description="database URL")
    mode: Literal["safe", "fast"] = Field("safe", description="how to work")
    signing_key: SecretStr | None = Field(None, description="key that signs request ids")


KEYS = {"HEADRACE_INGEST_KEYS_FILE": "keys.toml"}


def mistakes(environ: Mapping[str, str]) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load(IngestLike, environ)
    return caught.value.sentences


def row(name: str, environ: Mapping[str, str]) -> Explained:
    return next(row for row in explain(IngestLike, environ)[0] if row.name == name)


class SchedulerLike(ServiceSettings):
    """A service without a database."""

    service: ClassVar[str] = "scheduler"


def test_what_some_services_share_is_read_from_the_shared_name_by_those_that_have_it(tmp_path: Path) -> None:
    file = tmp_path / "headrace.toml"
    file.write_text('database = "sqlite:///from-file.db"\n')
    in_file = {**KEYS, "HEADRACE_CONFIG": str(file)}
    assert load(IngestLike, in_file).database == "sqlite:///from-file.db"
    assert (
        load(IngestLike, {**in_file, "HEADRACE_DATABASE": "sqlite:///shared.db"}).database
        == "sqlite:///shared.db"
    )
    own = {"HEADRACE_DATABASE": "sqlite:///shared.db", "HEADRACE_INGEST_DATABASE": "sqlite:///own.db"}
    assert load(IngestLike, {**KEYS, **own}).database == "sqlite:///own.db"
    load(SchedulerLike, {"HEADRACE_CONFIG": str(file), "HEADRACE_DATABASE": "sqlite:///shared.db"})


def test_fields_of_all_services_are_read_from_the_shared_name_and_own_ones_from_the_services() -> None:
    settings = load(
        IngestLike,
        {
            **KEYS,
            "HEADRACE_KAFKA": "k1:9092, k2:9092",
            "HEADRACE_INGEST_PORT": "81",
            "HEADRACE_INGEST_POOLS": "a, b",
            "HEADRACE_INGEST_LABELS": '{"x": 1}',
            "HEADRACE_INGEST_PATIENCE": "PT1M",
        },
    )
    assert (settings.kafka, settings.port) == ("k1:9092,k2:9092", 81)
    assert settings.pools == ("a", "b")
    assert settings.labels == {"x": 1}
    assert settings.patience == timedelta(minutes=1)
    assert settings.model_dump()["patience"] == "1m"
    assert settings.health_port == 9101


def test_the_services_own_name_is_stronger_than_the_shared_one_and_options_than_both() -> None:
    environ = {**KEYS, "HEADRACE_KAFKA": "shared:1", "HEADRACE_INGEST_KAFKA": "own:1"}
    assert load(IngestLike, environ).kafka == "own:1"
    assert load(IngestLike, environ, kafka="option:1").kafka == "option:1"


def test_the_file_is_weaker_than_the_environment_and_its_service_table_stronger_than_its_top(
    tmp_path: Path,
) -> None:
    file = tmp_path / "headrace.toml"
    file.write_text(
        'kafka = "file:1"\nname = "top"\n[ingest]\nname = "table"\nkeys_file = "k"\nport = 82\n[scheduler]\nx = 1\n'
    )
    settings = load(IngestLike, {"HEADRACE_CONFIG": str(file), "HEADRACE_INGEST_PORT": "83"})
    assert (settings.kafka, settings.name, settings.port) == ("file:1", "table", 83)


def test_constructing_settings_directly_reads_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_KAFKA", "elsewhere:1")
    monkeypatch.setenv("KAFKA", "elsewhere:2")
    assert IngestLike(keys_file=Path("k")).kafka == "127.0.0.1:9092"


def test_every_mistake_is_told_at_once_with_name_value_and_expectation() -> None:
    told = mistakes(
        {
            "HEADRACE_KAFKA": "nowhere",
            "HEADRACE_INGEST_PORT": "99999",
            "HEADRACE_INGEST_PATIENCE": "30",
            "HEADRACE_INGEST_MODE": "wild",
            "HEADRACE_INGEST_LABELS": "{",
            "HEADRACE_INGEST_PRT": "1",
            "HEADRACE_KAFKA_USERNAM": "u",
        }
    )
    assert told == (
        'HEADRACE_INGEST_PRT is unknown: did you mean "HEADRACE_INGEST_PORT"?',
        'HEADRACE_KAFKA_USERNAM is unknown: did you mean "HEADRACE_KAFKA_USERNAME"?',
        (
            'HEADRACE_KAFKA is "nowhere": expected host:port, several separated by commas, such as '
            '"kafka-1:9092,kafka-2:9092" (Kafka bootstrap servers, host:port separated by commas).'
        ),
        "HEADRACE_INGEST_KEYS_FILE is missing: TOML file of API keys.",
        'HEADRACE_INGEST_PORT is "99999": expected a value less than or equal to 65535 (port to listen on).',
        (
            'HEADRACE_INGEST_PATIENCE is "30": expected a duration with its unit, such as "500ms", "30s", "10m", '
            '"1h30m" or "PT30S" (longest wait).'
        ),
        'HEADRACE_INGEST_LABELS is "{": expected a valid dictionary (labels).',
        "HEADRACE_INGEST_MODE is \"wild\": expected 'safe' or 'fast' (how to work).",
    )


def test_wrong_settings_end_the_process_with_status_2_and_no_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        load_or_exit(IngestLike, {"HEADRACE_INGEST_KEYS_FILE": ""})
    assert ended.value.code == 2
    assert capsys.readouterr().err == "HEADRACE_INGEST_KEYS_FILE is missing: TOML file of API keys.\n"


def test_a_wrong_file_is_told_with_its_keys(tmp_path: Path) -> None:
    file = tmp_path / "h.toml"
    file.write_text('kafak = "x"\n[ingest]\nkeys_file = "k"\nprot = 1\n[ingst]\n[scheduler]\n')
    told = mistakes({"HEADRACE_CONFIG": str(file)})
    assert told == (
        f'kafak in {file} is unknown: did you mean "kafka"?',
        f'ingst in {file} is unknown: did you mean "ingest"?',
        f'ingest.prot in {file} is unknown: did you mean "port"?',
    )
    file.write_text("=")
    assert "isn't valid TOML" in mistakes({**KEYS, "HEADRACE_CONFIG": str(file)})[0]
    assert "can't be read" in mistakes({**KEYS, "HEADRACE_CONFIG": str(tmp_path / "none")})[0]
    file.write_text("ingest = 1\n")
    assert "write [ingest]" in mistakes({**KEYS, "HEADRACE_CONFIG": str(file)})[0]


def test_other_services_variables_and_kubernetes_service_links_are_nobodys_mistake() -> None:
    environ = {
        **KEYS,
        "HEADRACE_SCHEDULER_WHATEVER": "1",
        "HEADRACE_BROKER": "external",
        "HEADRACE_INGEST_SERVICE_HOST": "10.0.0.1",
        "HEADRACE_INGEST_SERVICE_PORT_HTTP": "8080",
        "HEADRACE_INGEST_PORT": "tcp://10.0.0.1:8080",
        "HEADRACE_INGEST_PORT_8080_TCP_ADDR": "10.0.0.1",
    }
    assert load(IngestLike, environ).port == 8080


def test_sasl_without_a_password_is_told() -> None:
    told = mistakes({**KEYS, "HEADRACE_KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "HEADRACE_KAFKA_USERNAME": "u"})
    assert told == (
        (
            "HEADRACE_KAFKA_SECURITY_PROTOCOL is SASL_SSL: it needs HEADRACE_KAFKA_SASL_MECHANISM, "
            "HEADRACE_KAFKA_PASSWORD."
        ),
    )


def test_no_secret_is_ever_shown() -> None:
    environ = {
        **KEYS,
        "HEADRACE_INGEST_SIGNING_KEY": "hush",
        "HEADRACE_KAFKA_PASSWORD": "hush",
        "HEADRACE_INGEST_DATABASE": "postgresql://me:hu@sh@db/x",
    }
    rows, general = explain(IngestLike, environ)
    assert general == []
    assert "hu" not in "".join(row.value for row in rows)
    assert row("database", environ).value == "postgresql://me:****@db/x"
    assert row("signing_key", environ).value == "****"
    assert "hush" not in repr(load(IngestLike, environ).signing_key)


def test_settings_are_explained_with_value_source_and_default_even_when_some_are_missing(
    tmp_path: Path,
) -> None:
    file = tmp_path / "h.toml"
    file.write_text('prefix = "dev."\n')
    environ = {"HEADRACE_CONFIG": str(file), "HEADRACE_INGEST_PORT": "x", "HEADRACE_INGEST_POOLZ": "a"}
    rows, general = explain(IngestLike, environ)
    assert {row.name for row in rows} == set(IngestLike.model_fields)
    missing = row("keys_file", environ)
    assert (missing.source, missing.value, missing.env) == ("missing", "", "HEADRACE_INGEST_KEYS_FILE")
    assert "is missing" in missing.problem
    assert row("port", environ).problem.startswith('HEADRACE_INGEST_PORT is "x": expected a valid integer')
    prefix = row("prefix", environ)
    assert (prefix.value, prefix.default, prefix.source) == ("dev.", "headrace.", "file")
    assert prefix.where == f"prefix in {file}"
    assert (row("patience", environ).value, row("patience", environ).source) == ("30s", "default")
    assert row("kafka", environ).env == "HEADRACE_KAFKA"
    assert len(general) == 1


def test_every_shared_setting_is_described() -> None:
    assert all(info.description for info in ServiceSettings.model_fields.values())
