"""``%acp connect`` and what has to do with the life of an agent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..services.agents import REPLAY, AgentSpec, from_command, from_recording, known_names
from .base import Commands, no_arguments, unknown_option

if TYPE_CHECKING:
    from ..host.link import Link

LOG_LINES = 40
"""Messages that ``%acp log`` shows by default."""

OPTIONS = ["--cwd", "--isolate", "--mcp", "--protocol", "--token-env", "--yes", "--"]
"""Of ``%acp connect``."""

LOG_WIDTH = 1000
"""Characters shown of one message."""


class ConnectionCommands(Commands):
    """Start, look at and end agents."""

    TITLE = "Agents"

    def _do_connect(self, arguments: list[str]) -> None:
        """%acp connect NAME [--yes] [--cwd DIR] [--as ALIAS] [--isolate worktree|copy]
        [--protocol 2] [--mcp SERVER …], or %acp connect … -- COMMAND ARGUMENT…: start an agent and
        open a session in the notebook's folder, or in DIR; with --isolate it works in a copy (see
        accept), with --yes it is downloaded unasked, with --protocol 2 it is asked for the draft of
        the next protocol, with --mcp it is told of an MCP server (see mcp). With an address as the
        name (wss://…, https://…) [--token-env NAME]: connect to an agent that runs there, with the
        token that the variable holds. With replay:FILE as the name [--speed original]
        [--apply-files]: replay a recording."""
        way, arguments = _taken_before_command("--isolate", arguments)
        servers, arguments = _all_taken("--mcp", arguments)
        spec, cwd = self._parse_connect(arguments)
        link = self._host.link(self._alias)
        before = dict(link.mcp.servers) if servers else {}
        if servers:
            link.call(self._cell(), link.mcp.add, servers, spec.unasked, False)
        try:
            if way is None and link.isolated is None:
                link.call(self._cell(), link.connect, spec, cwd)
            else:
                self._connect_isolated(link, spec, cwd, way)
        except BaseException:
            if servers:
                link.mcp.restore(before)
            raise

    def _connect_isolated(self, link: Link, spec: AgentSpec, cwd: str, way: str | None) -> None:
        """With a copy of the agent's own, or after one."""
        from ..host.isolation import isolated, settle

        if way is not None and spec.remote is not None:
            raise UsageError(
                "an agent that runs elsewhere cannot work in a copy here",
                remedy="Connect it without --isolate.",
            )
        copy = None if way is None else isolated(self._host, cwd, way)
        try:
            link.call(self._cell(), link.connect, spec, cwd if copy is None else copy.folder)
        except BaseException:
            if copy is not None:
                copy.discard()
            raise
        before, link.isolated = link.isolated, copy
        if copy is not None:
            self._say(
                f"It works in a copy, {copy.folder}: see `%acp changes`, `%acp accept`, "
                "`%acp discard`."
            )
        kept = settle(before)
        if kept:
            self._say(kept)

    def _do_restart(self, arguments: list[str]) -> None:
        """%acp restart: end the agent, start it anew and open a new session."""
        no_arguments("restart", arguments)
        link = self._link
        link.call(self._cell(), link.restart)

    def _do_disconnect(self, arguments: list[str]) -> None:
        """%acp disconnect: end the agent and all that it started."""
        no_arguments("disconnect", arguments)
        link = self._link
        agent = link.call(self._cell(), link.disconnect)
        if agent is None:
            self._say("No agent was connected.")
            return
        self._say(f"{agent.spec.name} has ended.")
        if link.isolated is not None:
            from ..host.isolation import settle

            kept = settle(link.isolated)
            if kept:
                self._say(f"{kept} `%acp accept` and `%acp discard` still work.")
        if agent.survivors():
            left = "\n  ".join(agent.survivors())
            self._say(f"It had left these running, which were ended too:\n  {left}")

    def _do_record(self, arguments: list[str]) -> None:
        """%acp record [FILE], or %acp record off: keep what is said with agents that are connected
        from now on, and what was decided, in a file beside the notebook, or in FILE."""
        recordings = self._host.recordings
        if len(arguments) > 1:
            raise UsageError("%acp record takes one word", remedy="Use the name of a file, or off.")
        if recordings.replayed_from:
            self._say(f"Recording: off, this is a replay of {recordings.replayed_from}.")
        elif arguments == ["off"]:
            path = recordings.stop()
            self._say(f"Recording: off{'' if path is None else f'; {path.name} is kept'}.")
        else:
            path = recordings.start(*arguments)
            self._say(f"Recording: {path.name}, from the next connect on.")

    def _do_log(self, arguments: list[str]) -> None:
        """%acp log [COUNT]: the last messages to and from the agent, and its standard error."""
        if len(arguments) > 1 or (arguments and not arguments[0].isdigit()):
            raise UsageError("%acp log takes a number", remedy="For example `%acp log 100`.")
        agent = self._link.agent
        if agent is None:
            self._say("No agent is connected.")
            return
        count = int(arguments[0]) if arguments else LOG_LINES
        self._say("\n".join(_log_lines(agent, count)) or "Nothing was said yet.")
        stderr = agent.stderr_tail(100)
        if stderr:
            self._say(f"Standard error:\n{stderr}")

    def _parse_connect(self, arguments: list[str]) -> tuple[AgentSpec, str]:
        own, command = arguments, None
        if "--" in arguments:
            cut = arguments.index("--")
            own, command = arguments[:cut], arguments[cut + 1 :]
        cwd = self._host.cwd
        names: list[str] = []
        source = None
        protocol, own = _protocol(own)
        token_env, own = _taken("--token-env", own)
        unasked = False
        if any(word.startswith(REPLAY) for word in own):
            from ..host.recordings import read_options

            source, own = read_options(own)
        rest = iter(own)
        for word in rest:
            if word == "--cwd":
                cwd = self._directory(next(rest, None))
            elif word.startswith("--cwd="):
                cwd = self._directory(word.removeprefix("--cwd="))
            elif word == "--yes":
                unasked = True
            elif word.startswith("-"):
                raise unknown_option(word, OPTIONS)
            else:
                names.append(word)
        if command is not None:
            if names:
                raise UsageError(
                    "%acp connect takes a name or a command, not both",
                    remedy="Write `%acp connect -- PROGRAM ARGUMENT…`.",
                )
            return self._host.settings.asked(from_command(command), protocol), cwd
        if len(names) != 1:
            known = ", ".join(known_names(self._host.settings.agents))
            raise UsageError(
                "%acp connect takes the name of one agent",
                remedy=f"Known: {known}. For any other one: `%acp connect -- PROGRAM ARGUMENT…`.",
            )
        spec = self._host.agent_named(names[0])
        if source is not None and not self._host.recordings.replayed_from:
            spec = from_recording(names[0].removeprefix(REPLAY), source)
        spec = _with_token(replace(spec, unasked=unasked), token_env)
        return self._host.settings.asked(spec, protocol), cwd


def _protocol(words: list[str]) -> tuple[int | None, list[str]]:
    """The version of the protocol that is asked for, and the words without it."""
    from ..host.settings import read_protocol

    found, rest = _taken("--protocol", words)
    return (None if found is None else read_protocol(found)), rest


def _taken_before_command(option: str, words: list[str]) -> tuple[str | None, list[str]]:
    """`_taken`; what stands behind ``--`` is the agent's."""
    cut = words.index("--") if "--" in words else len(words)
    found, own = _taken(option, words[:cut])
    return found, [*own, *words[cut:]]


def _all_taken(option: str, words: list[str]) -> tuple[list[str], list[str]]:
    """The values of an option that may be repeated, and the words without; up to ``--``."""
    cut = words.index("--") if "--" in words else len(words)
    found: list[str] = []
    rest: list[str] = []
    left = iter(words[:cut])
    for word in left:
        name, equals, value = word.partition("=")
        if name == option:
            found.append(value if equals else next(left, ""))
        else:
            rest.append(word)
    return found, [*rest, *words[cut:]]


def _taken(option: str, words: list[str]) -> tuple[str | None, list[str]]:
    """The value of an option, ``None`` without it, and the words without both."""
    found: str | None = None
    rest: list[str] = []
    left = iter(words)
    for word in left:
        name, equals, value = word.partition("=")
        if name == option:
            found = value if equals else next(left, "")
        else:
            rest.append(word)
    return found, rest


def _with_token(spec: AgentSpec, variable: str | None) -> AgentSpec:
    if variable is None:
        return spec
    from ..services.remote_agents import with_token

    return with_token(spec, variable)


def _log_lines(agent: Any, count: int) -> list[str]:
    from ..connection.environment import redact

    secrets = agent.secrets
    lines = []
    for entry in agent.log[-count:] if count else []:
        text = redact(entry.line.decode("utf-8", "replace").rstrip(), secrets)
        if len(text) > LOG_WIDTH:
            text = text[:LOG_WIDTH] + "…"
        lines.append(f"{'→' if entry.sent else '←'} {text}")
    return lines
