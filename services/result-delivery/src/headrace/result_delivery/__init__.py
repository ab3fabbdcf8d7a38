"""result-delivery: commits to SQL the one result of each request, what was accepted and what each attempt
used; then tells those who wait and emits the event.

One plain synchronous loop (`service`), a pure rule (`decisions`), SQL behind two small ports (`ports`, `adapters`).
"""
