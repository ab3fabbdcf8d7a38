"""What the worker decides: pure functions, one question a file."""
