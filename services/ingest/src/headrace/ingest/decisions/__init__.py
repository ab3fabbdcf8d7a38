"""Pure answers to one question a file. Called by the service and the doors; no clock, no dice, no I/O."""
