"""The rule of result-delivery, pure: what a record is, what a batch commits, and what is told afterwards."""
