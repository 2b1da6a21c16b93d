"""Notebooks as experiments: run, swept, compared and checked; above `client` and `api`."""
