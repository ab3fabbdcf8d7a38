"""One question a file; pure: `now`, random numbers and state are arguments, the answer is data."""
