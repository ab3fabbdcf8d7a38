"""How a cluster is reached, and what both clients are told alike. Built by a service's wiring from its settings.

Invariant: sizes fit the table of topics, so that what a topic takes can be sent and read.
"""

import ssl
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol, Self

from headrace.bus.kafka.client_logs import QuietLog
from headrace.contracts.durations import ms
from headrace.contracts.topics import TOPICS

MAX_MESSAGE_BYTES = max(rule.max_message_bytes for rule in TOPICS.values())
"""The largest message that any topic takes, in bytes; what is larger is refused before it is sent."""
ANSWER_WITHIN = timedelta(seconds=5)
"""How long a call that waits for a broker waits before it raises BusUnavailableError."""


def milliseconds(duration: timedelta) -> int:
    """A duration as both clients take it; at least 1."""
    return max(1, ms(duration))


class Secret(Protocol):
    """A value that shows itself only when asked to."""

    def get_secret_value(self) -> str:
        """The value."""
        ...


class KafkaSettings(Protocol):
    """What a service's settings say of Kafka (headrace.runtime.settings.ServiceSettings)."""

    @property
    def kafka(self) -> str: ...  # noqa: D102 - described where the settings are
    @property
    def kafka_security_protocol(self) -> str: ...  # noqa: D102
    @property
    def kafka_sasl_mechanism(self) -> str | None: ...  # noqa: D102
    @property
    def kafka_username(self) -> str | None: ...  # noqa: D102
    @property
    def kafka_password(self) -> Secret | None: ...  # noqa: D102
    @property
    def kafka_ca_file(self) -> Path | None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    """Addresses (`host:port`, separated by commas) and security. `ca_file` None: the system's certificate authorities."""

    bootstrap: str
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: Path | None = None

    @classmethod
    def of(cls, settings: KafkaSettings) -> Self:
        """As a service's settings say."""
        password = settings.kafka_password
        return cls(
            settings.kafka,
            security_protocol=settings.kafka_security_protocol,
            sasl_mechanism=settings.kafka_sasl_mechanism,
            username=settings.kafka_username,
            password=None if password is None else password.get_secret_value(),
            ca_file=settings.kafka_ca_file,
        )

    def librdkafka(self, name: str) -> dict[str, Any]:
        """Settings of every confluent-kafka client."""
        settings = {
            "bootstrap.servers": self.bootstrap,
            "client.id": name,
            "security.protocol": self.security_protocol,
            "sasl.mechanism": self.sasl_mechanism,
            "sasl.username": self.username,
            "sasl.password": self.password,
            "ssl.ca.location": None if self.ca_file is None else str(self.ca_file),
            # The default of 10 s would keep a client away long after a broker came back.
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 1000,
            "socket.keepalive.enable": True,
            "logger": QuietLog(),
        }
        return {key: value for key, value in settings.items() if value is not None}

    def aiokafka(self, name: str) -> dict[str, Any]:
        """Settings of every aiokafka client."""
        secure = self.security_protocol in {"SSL", "SASL_SSL"}
        settings = {
            "bootstrap_servers": self.bootstrap,
            "client_id": name,
            "security_protocol": self.security_protocol,
            "sasl_mechanism": self.sasl_mechanism or "PLAIN",
            "sasl_plain_username": self.username,
            "sasl_plain_password": self.password,
            "ssl_context": ssl.create_default_context(cafile=self.ca_file) if secure else None,
        }
        return {key: value for key, value in settings.items() if value is not None}
