"""The record by which an owner, or an operator's order, proves where a log ends. Written by the scheduler and the CLI, passed
over by whoever reads that log.

A broker that was paused, or cut off, takes itself for a leader until it hears that another is, and tells the end that it
knows. Nothing can be written through it that all replicas in sync acknowledge, so a record of our own can't be deceived.
"""

from msgspec import Struct


class Barrier(Struct, frozen=True, kw_only=True, tag="barrier"):
    """Whatever was acknowledged in this partition before it was sent stands before it. It says nothing else."""
