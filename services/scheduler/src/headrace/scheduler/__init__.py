"""The scheduler: decides what runs next, for which tenant, on which backend, and when instead to wait, retry or give up.

`service` turns each pool's `pool_loop`: it stands by (`watching`), takes over (`claiming`) or owns (`owning`). An owner steps
its `core`, which folds the logs into `state` and asks `decisions`: each is one rule, and docs/rules.md leads to it.
"""
