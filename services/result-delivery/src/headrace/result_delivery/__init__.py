"""result-delivery: commits the one result of each request to SQL, then tells those who wait and emits the event.

One plain synchronous loop (`service`), a pure rule (`decisions`), SQL behind two small ports (`ports`, `adapters`).
"""
