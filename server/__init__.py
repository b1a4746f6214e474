"""The HTTP service around the checker: API v1, store, jobs, page; holds no semantics of its own."""
