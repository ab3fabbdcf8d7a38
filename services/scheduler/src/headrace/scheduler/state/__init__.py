"""What the owner knows: plain data structures, each with one invariant. No I/O, no clock."""
