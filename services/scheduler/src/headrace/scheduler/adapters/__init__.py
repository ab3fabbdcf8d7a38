"""What the scheduler's ports are in real life."""
