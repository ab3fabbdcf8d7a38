"""What every service is told at start. Each service's settings.py derives from `ServiceSettings` and names itself.

Values reach an object by headrace.runtime.settings_loading alone: HEADRACE_<SERVICE>_<FIELD>, then (for the fields of
this class, and those that several services share) HEADRACE_<FIELD>, then the TOML file named by HEADRACE_CONFIG, then the
default.
Invariant: constructing one directly reads no environment and no file, so that a test means what it says.
"""

import os
import re
import socket
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

SERVICES = ("ingest", "scheduler", "inference_worker", "result_delivery")
"""Services that may have a table in the settings file and a prefix in the environment."""

SHARED_BY_SOME = frozenset({"database"})
"""Fields that more than one service has, though not all: they too are read from HEADRACE_<FIELD>."""

_ADDRESS = re.compile(r"(\[[0-9a-fA-F:]+\]|[^\s,:\[\]/]+):\d{1,5}")
_TOPIC_CHARACTERS = re.compile(r"[A-Za-z0-9._-]{0,100}")


def _addresses(text: str) -> str:
    if not all(_ADDRESS.fullmatch(part.strip()) for part in text.split(",")):
        raise ValueError(
            'expected host:port, several separated by commas, such as "kafka-1:9092,kafka-2:9092"'
        )
    return ",".join(part.strip() for part in text.split(","))


def _topic_prefix(text: str) -> str:
    if not _TOPIC_CHARACTERS.fullmatch(text):
        raise ValueError(
            'expected at most 100 letters, digits, ".", "_" or "-", as Kafka allows in topic names'
        )
    return text


def _replica_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


class ServiceSettings(BaseSettings):
    """The settings that every service has; a subclass sets `service` and adds its own, each with a description."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", validate_default=True)

    service: ClassVar[str] = ""
    """The name in the environment and in the file, with underscores: `inference_worker`. Empty: no fields of its own."""

    kafka: Annotated[str, AfterValidator(_addresses)] = Field(
        "127.0.0.1:9092", description="Kafka bootstrap servers, host:port separated by commas"
    )
    prefix: Annotated[str, AfterValidator(_topic_prefix)] = Field(
        "headrace.", description="what the name of every topic begins with"
    )
    policy: Path | None = Field(
        None, description="TOML file of tiers, pools and tenants; without one there are none"
    )
    name: str = Field(
        default_factory=_replica_name,
        min_length=1,
        max_length=128,
        description="name of this replica, unique among its kind; default: host name and process id",
    )
    health_host: str = Field("127.0.0.1", description="address that /livez, /readyz and /metrics listen on")
    health_port: int = Field(
        0,
        ge=0,
        le=65535,
        description="port of /livez, /readyz and /metrics; 0 takes a free one, which is logged",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="least level that is logged"
    )
    log_format: Literal["json", "console"] = Field("json", description="log lines for programs or for people")
    otlp_endpoint: str | None = Field(
        None,
        pattern=r"^https?://[^\s/]+",
        description="OTLP/HTTP collector that gets traces, such as http://127.0.0.1:4318; without one none are sent",
    )
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="how connections to Kafka are secured"
    )
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        None, description="how this service proves to Kafka who it is, where the protocol is SASL_*"
    )
    kafka_username: str | None = Field(None, description="Kafka user, where the protocol is SASL_*")
    kafka_password: SecretStr | None = Field(None, description="Kafka password, where the protocol is SASL_*")
    kafka_ca_file: Path | None = Field(
        None,
        description="PEM file of the authorities that may sign the brokers' certificates; default: the system's",
    )

    @model_validator(mode="after")
    def _sasl_is_whole(self) -> Self:
        needed = {
            "HEADRACE_KAFKA_SASL_MECHANISM": self.kafka_sasl_mechanism,
            "HEADRACE_KAFKA_USERNAME": self.kafka_username,
            "HEADRACE_KAFKA_PASSWORD": self.kafka_password,
        }
        missing = [name for name, value in needed.items() if value is None]
        if self.kafka_security_protocol.startswith("SASL_") and missing:
            raise ValueError(
                f"HEADRACE_KAFKA_SECURITY_PROTOCOL is {self.kafka_security_protocol}: it needs "
                + ", ".join(missing)
            )
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 the signature is pydantic-settings'
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what is handed in: settings_loading knows the order of sources and where each value came from."""
        return (init_settings,)
