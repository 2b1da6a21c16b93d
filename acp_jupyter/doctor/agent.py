"""Whether an agent works, and where it breaks the rules of the protocol.

`check_agent` starts it in an empty temporary folder and tries what it advertises, then once more to
see what it does with what no client should send. Nothing is permitted to it (`peer`), it is not
logged in or out, and sessions that were not made here are left alone.

What comes of it is an item for each thing that was looked at: "fail" breaks a rule that says MUST,
"warn" one that says SHOULD or what others rely on, "not run" what could not be tried, with the
reason. The rules are told in words; they are those of https://agentclientprotocol.com.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ..errors import ACPError, UsageError
from .findings import AgentReport, Findings

if TYPE_CHECKING:
    from ..host.cell import CellContext
    from ..host.host import Host
    from ..services.agents import AgentSpec

PROMPT: Final = "Answer with the single word: ready"
"""What an agent is asked; a model answers it with a few tokens."""

LONG: Final = "Write the numbers from one to three hundred as English words, a line each."
"""What an agent is asked to be cancelled in, well before its end."""

BUNDLED_LONG: Final = "wait"
"""The same for the bundled agent, which has a word for it."""


def check_agent(
    agent: str | Sequence[str],
    *,
    protocol: int | None = None,
    env: Mapping[str, str] | None = None,
    prompts: bool = True,
    prompt: str = PROMPT,
    long_prompt: str | None = None,
) -> AgentReport:
    """Start an agent and check it.

    Args:
        agent: a name, a command line, or a command as a list.
        protocol: version to ask for, 1 or 2; by default what the settings say.
        env: variables added to the agent's environment.
        prompts: send prompts, two short ones and one that is cancelled; a model may cost something.
        prompt: what to ask.
        long_prompt: what to ask where the answer is to be cancelled; has to take a second or more.

    Returns:
        What was found; it displays itself in a notebook.

    Raises:
        UsageError: nobody knows the name, or the agent runs elsewhere.
        ACPError: it could not be downloaded.
    """
    from dataclasses import replace

    from ..api.agent import _surroundings
    from ..host.settings import read_protocol
    from ..services.agents import DEMO, from_command

    host, cell = _surroundings()
    try:
        if isinstance(agent, str):
            spec = host.agent_of(agent)
        else:
            spec = from_command([os.fspath(word) for word in agent])
        version = None if protocol is None else read_protocol(protocol)
        spec = host.settings.asked(spec, version)
        if env:
            spec = replace(spec, env={**spec.env, **env})
        if long_prompt is None:
            long_prompt = BUNDLED_LONG if spec.name == DEMO else LONG
        texts = (prompt, long_prompt) if prompts else None
        return _check(host, cell, spec, texts)
    finally:
        if host.kernel is None:
            host.close()


def _check(
    host: Host, cell: Callable[[], CellContext], spec: AgentSpec, texts: tuple[str, str] | None
) -> AgentReport:
    if spec.remote is not None or spec.replay is not None:
        raise UsageError(
            f"{spec.name!r} is no program that is started here",
            remedy="Name an agent that runs on this machine, or its command.",
        )
    link = host.new_link(quiet=True)
    try:
        if spec.registry is not None:
            install = host.installing.ready
            spec, _ = link.call(cell(), install, spec, None, exclusive=False)
        found = Findings()
        with tempfile.TemporaryDirectory(prefix="acp-jupyter-doctor-") as made:
            base = os.path.realpath(made)
            environ = dict(host.environ)
            link.call(cell(), _examine, found, spec, environ, base, texts, exclusive=False)
    finally:
        host.drop(link)
    return AgentReport(
        agent=found.agent or spec.name,
        command=spec.argv,
        protocol=found.version or spec.protocol,
        items=tuple(found.items),
    )


async def _examine(
    _cell: CellContext,
    found: Findings,
    spec: AgentSpec,
    environ: Mapping[str, str],
    base: str,
    texts: tuple[str, str] | None,
) -> None:
    from ..connection.environment import child_environment
    from ..services.agents import DEMO
    from . import examination, misuse

    extra = dict(spec.env)
    if spec.name == DEMO:  # its sessions are not to stay behind
        extra["ACP_DEMO_STORE"] = os.path.join(base, "sessions")
    env = child_environment(environ, extra=extra, minimal=spec.minimal_env, keep=spec.keep)
    folder = os.path.join(base, "work")
    os.mkdir(folder)
    try:
        await examination.examine(found, spec, env, folder, texts)
        if found.started:
            await misuse.examine(found, spec, env, folder)
    except ACPError as error:
        found.fail("start", "starts", str(error))
