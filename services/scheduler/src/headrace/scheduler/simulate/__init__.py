"""Runs the owner's core against a trace in virtual time, beside simpler policies, and measures what each does to callers.

Driven by `headrace simulate` and the benchmarks. Pure: no clock, no I/O; chance comes from the seed alone. Invariant: no
rule of the product is copied here; `headrace` among the contenders is the product's own core, whole.
"""
