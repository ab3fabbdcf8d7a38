"""What development, tests and the demo run on: a real broker, a real model, a fake engine, all on a leash.

Used by `headrace dev …`, by tests/support and by the demo; never by a service in production.
"""
