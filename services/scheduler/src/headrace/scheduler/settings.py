"""What the scheduler is told: the settings of every service, and its own."""

from typing import ClassVar

from pydantic import Field

from headrace.runtime.settings import ServiceSettings


class SchedulerSettings(ServiceSettings):
    """Read from HEADRACE_SCHEDULER_<FIELD>; what every service has, from HEADRACE_<FIELD> too."""

    service: ClassVar[str] = "scheduler"

    pools: tuple[str, ...] = Field(
        (), description="pools to own or stand by for, separated by commas; default: all of the policy"
    )
    replicas: tuple[str, ...] = Field(
        (),
        description="names of all scheduler replicas, separated by commas, so that standbys take over one after the other",
    )
    window_records: int = Field(
        4_000,
        ge=10,
        le=1_000_000,
        description="unfinished requests of one partition that are kept in memory whole",
    )
    window_bytes: int = Field(
        32 * 1024 * 1024,
        ge=1024 * 1024,
        description="bytes of unfinished requests of one partition that are kept in memory",
    )
    window_spilled: int = Field(
        1_000_000,
        ge=10,
        le=10_000_000,
        description="unfinished requests of one partition of which the metadata alone is kept in memory",
    )
    tenant_records: int = Field(
        1_000,
        ge=1,
        le=1_000_000,
        description="requests of one tenant and tier that wait in memory whole; of more only the metadata is kept",
    )
    tenant_bytes: int = Field(
        8 * 1024 * 1024, ge=64 * 1024, description="bytes of them; of more only the metadata is kept"
    )
