"""The benchmark: what the client and the kernel cost, as ratios to floors and peers in one run.

``python -m tests.bench`` prints the table of goals; `measures` says how each row is measured.
"""
