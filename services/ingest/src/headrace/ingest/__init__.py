"""The public HTTP API: authenticates, checks, admits, puts into the log, and brings answers back."""
