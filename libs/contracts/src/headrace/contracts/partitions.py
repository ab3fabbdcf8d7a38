"""Which partition a tenant's records live in. Called by ingest once per request; a request carries the number for its life.

Invariant: version 1 never changes. Adding partitions needs a version 2, and moves no request that was already accepted.
"""

from zlib import crc32

BUCKETS = 4096


def bucket_of(tenant: str) -> int:
    """One of 4,096 fixed buckets: CRC-32 (IEEE 802.3) of the tenant's UTF-8 name, modulo 4,096."""
    return crc32(tenant.encode()) % BUCKETS


def partition_of(tenant: str, partitions: int) -> int:
    """Version 1: bucket modulo the number of partitions. Raises ValueError outside of 1..4,096 partitions."""
    if not 1 <= partitions <= BUCKETS:
        raise ValueError(f"partitions must be 1..{BUCKETS}, got {partitions}")
    return bucket_of(tenant) % partitions
