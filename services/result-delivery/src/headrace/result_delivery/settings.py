"""What result-delivery is told: the settings of every service, and its own."""

from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from headrace.result_delivery.adapters.database import driver_url
from headrace.runtime.settings import ServiceSettings


def _usable(url: str) -> str:
    driver_url(url)
    return url


class DeliverySettings(ServiceSettings):
    """Read from HEADRACE_RESULT_DELIVERY_<FIELD>; what every service has, from HEADRACE_<FIELD> too."""

    service: ClassVar[str] = "result_delivery"

    database: Annotated[str, AfterValidator(_usable)] = Field(
        "sqlite:///headrace.db",
        description="where results are stored: sqlite:///file.db, or postgresql://user:password@host/name for replicas",
    )
    migrate: bool = Field(
        default=True,
        description="bring the database's tables to this version at start; false: only check that they are",
    )
    accept_loss: bool = Field(
        default=False,
        description="read on although records are gone that the database lacks: once, when nothing can bring them back",
    )
