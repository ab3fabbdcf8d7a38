"""What ingest is told at start. Loaded by headrace.runtime.settings_loading; shown by `headrace config show`."""

from datetime import timedelta
from typing import Annotated, ClassVar
from zlib import crc32

from pydantic import AfterValidator, Field, SecretStr

from headrace.contracts.topics import MAX_PAYLOAD_BYTES
from headrace.ingest.adapters.results_sql import engine_url
from headrace.runtime.durations import PositiveDuration
from headrace.runtime.settings import ServiceSettings

_ROOM = 64 * 1024
_MIN_KEY_BYTES = 32


def _key(value: SecretStr) -> SecretStr:
    try:
        size = len(bytes.fromhex(value.get_secret_value()))
    except ValueError:
        size = 0
    if size < _MIN_KEY_BYTES:
        raise ValueError("expected at least 64 hexadecimal digits; `openssl rand -hex 32` makes them")
    return value


def _database(url: str) -> str:
    engine_url(url)
    return url


class IngestSettings(ServiceSettings):
    """The settings of one replica."""

    service: ClassVar[str] = "ingest"

    host: str = Field("127.0.0.1", description="address that the API listens on")
    port: int = Field(
        8080, ge=0, le=65535, description="port of the API; 0 takes a free one, which is logged"
    )
    database: Annotated[str, AfterValidator(_database)] = Field(
        "sqlite:///headrace.db", description="URL of the results: sqlite:///file.db or postgresql://..."
    )
    id_key: Annotated[SecretStr, AfterValidator(_key)] = Field(
        description="secret that makes request ids unforgeable, the same on every replica; `openssl rand -hex 32` makes one"
    )
    gateway: int | None = Field(
        None, ge=0, description="partition of replies that this replica reads; default: told by its name"
    )
    max_body: int = Field(
        MAX_PAYLOAD_BYTES - _ROOM,
        ge=1024,
        le=MAX_PAYLOAD_BYTES,
        description="largest body that is taken, in bytes",
    )
    max_open: int = Field(10_000, ge=1, description="requests that may be open at a time; more get a 503")
    max_event_streams: int = Field(200, ge=1, description="event streams that may be open at a time")
    delivery_timeout: PositiveDuration = Field(
        timedelta(seconds=11), description="how long Kafka may take to acknowledge a request"
    )
    heartbeat_after: PositiveDuration = Field(
        timedelta(seconds=10), description="silence on a waiting connection before a heartbeat is sent"
    )
    lost_final_poll: PositiveDuration = Field(
        timedelta(seconds=2), description="how often results are looked up for those who wait"
    )
    drain: PositiveDuration = Field(
        timedelta(seconds=25), description="how long open connections may go on when the replica stops"
    )

    def id_key_bytes(self) -> bytes:
        """The key of request ids."""
        return bytes.fromhex(self.id_key.get_secret_value())

    def gateway_of(self, gateways: int) -> int:
        """The partition of `replies` that is this replica's: as told, or a stable hash of its name."""
        return (crc32(self.name.encode()) if self.gateway is None else self.gateway) % gateways
