"""Which program an agent's name stands for.

Names come from three places, in this order: the user's configuration, the bundled agent ``demo``,
and the registry of agents. A command given in full needs no name. Nothing is taken from the
workspace or a notebook.
"""

from __future__ import annotations

import difflib
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from ..connection.address import is_address
from ..errors import UsageError
from ..protocol import older

if TYPE_CHECKING:
    from ..connection.address import RemoteSource
    from .registry.model import RegistryAgent

DEMO = "demo"

MISSING_IS_EMPTY = frozenset({"gemini-cli"})
"""Agents, by the name they give themselves, that cannot tell "no such file" (-32002) from other
errors and then do not create the file (seen with gemini-cli 0.61)."""

RUNNERS = ("python", "node", "npx", "uvx", "bun", "deno")
"""Programs that run an agent: it is called after what they run."""


REPLAY: Final = "replay:"
"""With which the name of a recording begins, where an agent is named."""


@dataclass(frozen=True, slots=True)
class ReplaySource:
    """A recording that stands for an agent.

    Attributes:
        path: absolute.
        agent: only connections to the agent of that name; ``None`` for any.
        original: with the pauses of then.
        apply_files: recorded writes are made.
    """

    path: str
    agent: str | None = None
    original: bool = False
    apply_files: bool = False


@dataclass(frozen=True, slots=True)
class Shown:
    """What a recording says of its agent: the command, and the policy that it met."""

    command: str
    permissions: str


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """How to start an agent.

    Attributes:
        name: what the user calls it.
        argv: program and arguments; the address where it is remote.
        env: variables added to the child's environment.
        minimal_env: start from an allowlist instead of the user's environment.
        keep: names of variables to keep with ``minimal_env``.
        replay: a recording that it is replayed from; the command is found when it starts.
        shown: what people are shown of the agent that is replayed.
        remote: how to reach it where it runs elsewhere.
        registry: an agent of the registry, whose command is chosen when it starts.
        unasked: it may be downloaded without a question.
        protocol: version to ask for; 2 is a draft, and an agent that has only 1 is started again.
        secrets: values of ``env`` that the user typed in, and nobody else gets to see.
        dialect: in which it is written to: "official", "seed001" (see `protocol.older`), or empty
            for what it shows to speak.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    minimal_env: bool = False
    keep: tuple[str, ...] = ()
    replay: ReplaySource | None = None
    shown: Shown | None = None
    remote: RemoteSource | None = None
    registry: RegistryAgent | None = None
    unasked: bool = False
    protocol: int = 1
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    dialect: str = ""


def demo_agent() -> AgentSpec:
    """The bundled agent, run by the Python that runs us.

    ``-P``: a file of the workspace must not take the place of a module.
    """
    return AgentSpec(DEMO, (sys.executable, "-P", "-m", "acp_jupyter.demo_agent"))


def from_recording(path: str, source: ReplaySource | None = None) -> AgentSpec:
    """An agent that is replayed.

    Args:
        path: of the recording.
        source: how; its path is not used.

    Raises:
        UsageError: there is no such file.
    """
    full = os.path.abspath(os.path.expanduser(path))
    if not path or not os.path.isfile(full):
        raise UsageError(
            f"there is no recording {path!r}",
            remedy="Record a run first: `%acp record`, then connect and run the cells.",
        )
    source = replace(source or ReplaySource(full), path=full)
    # What the recorded agent got from the environment is in the recording, if anywhere.
    keep = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    return AgentSpec(os.path.basename(full), (), minimal_env=True, keep=keep, replay=source)


def from_command(argv: Sequence[str]) -> AgentSpec:
    """An agent given as a command; named after its program.

    Raises:
        UsageError: there is no command.
    """
    if not argv or not argv[0]:
        raise UsageError(
            "no command was given", remedy="Write `%acp connect -- PROGRAM ARGUMENT…`."
        )
    name = argv[0].replace("\\", "/").rsplit("/", 1)[-1]
    script = next((part for part in argv[1:] if not part.startswith("-")), "")
    if script and name.startswith(RUNNERS):
        name = script.replace("\\", "/").rsplit("/", 1)[-1]
    return AgentSpec(name, tuple(argv))


def from_name(name: str, configured: Mapping[str, object], registry: str = "") -> AgentSpec:
    """The agent of that name.

    Args:
        name: as the user wrote it.
        configured: name to command (a string or a list), or to a dict with ``command``, ``env``
            (a dict), ``env_mode`` ("user" or "minimal"), ``keep`` (names) and ``dialect`` (see
            `AgentSpec`); or to a dict with
            ``url``, see `remote_agents`.
        registry: address of the registry; the official one if it is empty.

    Raises:
        UsageError: nobody knows the name, or its configuration cannot be read.
    """
    if name in configured:
        return _from_configuration(name, configured[name])
    if name == DEMO:
        return demo_agent()
    if name.startswith(REPLAY):
        return from_recording(name.removeprefix(REPLAY))
    if is_address(name):
        from .remote_agents import from_address

        return from_address(name)
    from .registry import catalogue

    known = catalogue.load(registry)
    agent = known.find(name)
    if agent is not None:
        return AgentSpec(name, (), registry=agent)
    names = known_names(configured)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    close = close or difflib.get_close_matches(name, known.names(), n=3, cutoff=0.6)
    hint = f"Did you mean {' or '.join(close)}? " if close else ""
    raise UsageError(
        f"no agent is called {name!r}",
        remedy=f"{hint}Known agents: {', '.join(names)}, and those that `%acp agents` lists. "
        "Any other one: `%acp connect -- PROGRAM ARGUMENT…`.",
    )


def from_text(text: str, configured: Mapping[str, object], registry: str = "") -> AgentSpec:
    """An agent named by one string (``ACP_JUPYTER_AGENT``): a known name, an address, a
    recording (``replay:FILE``), or a command line. Arguments as of `from_name`.

    Raises:
        UsageError: it is neither.
    """
    text = text.strip()
    if text == DEMO or text in configured or is_address(text):
        return from_name(text, configured)
    if text.startswith(REPLAY):
        return from_recording(text.removeprefix(REPLAY))
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is no command line: {error}") from error
    if len(words) > 1 or "/" in text:
        return from_command(words)
    return from_name(text, configured, registry)


def known_names(configured: Mapping[str, object]) -> list[str]:
    """All names that `from_name` knows without the registry, the bundled agent first."""
    return [DEMO, *sorted(name for name in configured if name != DEMO)]


def _from_configuration(name: str, value: object) -> AgentSpec:
    settings: Mapping[str, object] = value if isinstance(value, Mapping) else {"command": value}
    if "url" in settings:
        from .remote_agents import from_settings

        return from_settings(name, settings)
    command = settings.get("command")
    argv = shlex.split(command) if isinstance(command, str) else command
    env = settings.get("env", {})
    mode = settings.get("env_mode", "user")
    keep = settings.get("keep", [])
    dialect = settings.get("dialect", "")
    if (
        not isinstance(argv, Sequence)
        or not argv
        or not all(isinstance(word, str) for word in argv)
        or not isinstance(env, Mapping)
        or not isinstance(keep, Sequence)
        or mode not in ("user", "minimal")
        or dialect not in ("", older.OFFICIAL, older.DIALECT)
    ):
        raise UsageError(
            f"the configuration of the agent {name!r} cannot be read",
            remedy="It is a command (a string or a list of strings), or a dict with "
            '"command", "env" (a dict), "env_mode" ("user" or "minimal"), "keep" (a list) and '
            f'"dialect" ("{older.OFFICIAL}" or "{older.DIALECT}").',
        )
    return AgentSpec(
        name,
        tuple(argv),
        env={str(key): str(value) for key, value in env.items()},
        minimal_env=mode == "minimal",
        keep=tuple(str(key) for key in keep),
        dialect=str(dialect),
    )
