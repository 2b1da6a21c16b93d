"""The Python API: agents, sessions and turns as objects, in notebooks and in scripts.

The names are those of ``acp_jupyter`` itself: ``import acp_jupyter as acp``, ``acp.connect(…)``.
"""
