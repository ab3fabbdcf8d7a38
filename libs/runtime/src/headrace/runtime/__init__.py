"""What every service needs to run: clock, settings, logs, metrics, traces, health and the supervisor.

Called by each service's `__main__.py`. Invariant: nothing here is built at import, and nothing here knows a service.
"""
