"""What the worker's ports stand for in the world: the backend's HTTP."""
