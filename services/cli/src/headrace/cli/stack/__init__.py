"""All services together on one machine: as child processes (`stack.processes`) or in one process (`stack.memory`).

Used by `headrace dev up`, by the demo and by the end-to-end tests; never in production.
"""
