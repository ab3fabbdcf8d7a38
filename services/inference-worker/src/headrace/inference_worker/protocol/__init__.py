"""The worker's side of the core protocol as a pure core: inputs and an instant in, outputs out, no I/O."""
