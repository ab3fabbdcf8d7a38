"""What every service agrees on: ids, records, topics, lifecycle, failures, policy. Imports nothing of ours, does no I/O."""
