"""The way to an agent, chosen by how it is given: a process of ours, or a connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager

from ..connection.stdio import open_stdio
from ..connection.transport import Transport
from ..services.agents import AgentSpec

__all__ = ["open_transport"]


def open_transport(
    spec: AgentSpec,
    *,
    cwd: str,
    environment: Mapping[str, str],
    environ: Mapping[str, str],
    version: str,
    on_stderr: Callable[[bytes], None],
) -> AbstractAsyncContextManager[Transport]:
    """Start the agent, or connect to it; on leaving, nothing of that is left.

    Args:
        spec: how to.
        cwd: working directory of a process.
        environment: all variables of a process.
        environ: the kernel's own, for the token of a remote agent.
        version: of this package.
        on_stderr: takes what a process writes to its standard error.

    Raises:
        AgentError: it could not be started or reached; see `open_stdio` and `open_remote`.
        UsageError: the command or the token cannot be used.
    """
    if spec.remote is None:
        return open_stdio(spec.argv, cwd=cwd, env=environment, on_stderr=on_stderr)
    from ..connection.remote import open_remote

    return open_remote(spec.remote, name=spec.name, environ=environ, version=version)
