"""The scheduler: decides what runs next, for which tenant, on which backend, and when instead to wait, retry or give up."""
