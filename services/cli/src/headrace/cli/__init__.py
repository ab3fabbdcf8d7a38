"""The `headrace` command: operators' commands, a development stack of all services, and the demo."""
