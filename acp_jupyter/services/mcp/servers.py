"""MCP servers as users write them: in the configuration, in files, in Python.

Rules:

- What a server is (its command or address) is read here; nothing is started or connected to: the
  agent does that.
- ``${NAME}``, ``${NAME:-default}`` and ``${env:NAME}`` stand for variables of the environment
  without Jupyter's own, ``${workspaceFolder}`` for the session's folder. They are put in when a
  session is opened; what is shown, and what consent is given to, is the text before that.
- Values of variables and header fields are secrets: they are in no text that is made here.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ...connection.environment import SHORTEST_SECRET, child_environment
from ...errors import UsageError
from ...protocol.secrets import Redactor
from ...rendering.characters import one_line

__all__ = ["McpServer", "Ready", "read_server"]

JSON = Any
Transport = Literal["stdio", "http", "sse"]
Pairs = tuple[tuple[str, str], ...]

TRANSPORTS: Final[dict[str, Transport]] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "remote": "http",
    "sse": "sse",
}
"""How files name the transports."""

LONGEST: Final = 10_000
MANY: Final = 1_000
"""Characters of one text, and items of one list."""

_VARIABLE: Final = re.compile(r"\$\{([^{}]{1,200})\}")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EXAMPLE: Final = (
    'For example {"command": "npx", "args": ["-y", "server"]}, or {"url": "https://…"}.'
)


@dataclass(frozen=True, slots=True)
class Ready:
    """A server as it is sent.

    Attributes:
        name: what the user calls it.
        transport: "stdio", "http" or "sse".
        digest: see `McpServer.digest`.
        message: an item of ``mcpServers``, in the form of version 1.
        secrets: values in it that are never shown.
    """

    name: str
    transport: Transport
    digest: str
    message: dict[str, Any] = field(repr=False)
    secrets: frozenset[str] = field(default=frozenset(), repr=False)


@dataclass(frozen=True, slots=True)
class McpServer:
    """A server as it was written.

    Attributes:
        name: what the user, and the agent, call it.
        transport: how it is reached.
        command, args: of stdio.
        url: of http and sse.
        values: variables of its environment, or header fields.
        source: the file it is from; empty where the user's settings or code have it.
        cwd: what a relative command starts from; empty for the session's folder.
    """

    name: str
    transport: Transport
    command: str = ""
    args: tuple[str, ...] = ()
    url: str = ""
    values: Pairs = field(default=(), repr=False)
    source: str = ""
    cwd: str = ""

    @property
    def identity(self) -> str:
        """SHA-256 of all that decides what runs: consent is given to exactly that."""
        return _digest([self.name, *self._what, list(self.values), self.source])

    @property
    def digest(self) -> str:
        """SHA-256 of what may be told: without values of variables and header fields."""
        redactor = Redactor()
        what = json.loads(redactor.text(json.dumps(self._what)))
        return _digest([self.name, *what, [name for name, _ in self.values]])

    @property
    def _what(self) -> list[Any]:
        return [self.transport, self.command, list(self.args), self.url]

    @property
    def line(self) -> str:
        """What runs, or is connected to, on one line and without secrets."""
        what = shlex.join([self.command, *self.args]) if self.transport == "stdio" else self.url
        names = ", ".join(name for name, _ in self.values)
        kind = "variables" if self.transport == "stdio" else "headers"
        with_values = f" (with {kind} {names})" if names else ""
        return one_line(Redactor().text(what) + with_values, 400)

    def taken_from_environment(self) -> list[str]:
        """Names of the variables that are put into it."""
        texts = [self.command, *self.args, self.url, *(value for _, value in self.values)]
        found = [match[1] for text in texts for match in _VARIABLE.finditer(text)]
        names = [name.removeprefix("env:").partition(":-")[0] for name in found]
        return sorted({name for name in names if name != "workspaceFolder"})

    def ready(self, environ: Mapping[str, str], cwd: str, *, here: bool = True) -> Ready:
        """The server as it is sent, with the variables put in.

        Args:
            environ: of the kernel.
            cwd: folder of the session, absolute.
            here: the agent runs on this machine, where a command can be looked for.

        Raises:
            UsageError: a variable is not set, or a program not there.
        """
        known = child_environment(environ)
        put_in: set[str] = set()

        def filled(text: str) -> str:
            return _filled(text, known, cwd, self.name, put_in)

        values = [{"name": name, "value": filled(value)} for name, value in self.values]
        message: dict[str, Any] = {"name": self.name}
        if self.transport == "stdio":
            child_environment(environ, extra={item["name"]: item["value"] for item in values})
            command = filled(self.command)
            if here:
                command = self._found(command, known.get("PATH", os.defpath), self.cwd or cwd)
            message |= {"command": command, "args": [filled(arg) for arg in self.args]}
            message["env"] = values
        else:
            message |= {"type": self.transport, "url": filled(self.url), "headers": values}
        secrets = {item["value"] for item in values if not os.path.isabs(item["value"])} | put_in
        secrets |= {value.rpartition(" ")[2] for value in secrets}  # "Bearer …"
        kept = frozenset(value for value in secrets if len(value) >= SHORTEST_SECRET)
        return Ready(self.name, self.transport, self.digest, message, kept)

    def _found(self, command: str, path: str, cwd: str) -> str:
        """The absolute path of the program: the protocol wants that."""
        expanded = os.path.expanduser(command)
        if os.path.dirname(expanded):
            found = shutil.which(os.path.join(cwd, expanded))
        else:
            found = shutil.which(expanded, path=path)
        if found is None:
            raise UsageError(
                f"the program of MCP server {self.name!r} is not there: "
                f"{one_line(Redactor().text(command), 200)}",
                remedy="Install it, or correct its command.",
            )
        return os.path.abspath(found)


def read_server(name: str, value: JSON, *, source: str = "", cwd: str = "") -> McpServer:
    """A server from an entry of a file's ``mcpServers``, or of the settings.

    Args:
        name: its key.
        value: the entry.
        source: the file that it is from.
        cwd: what a relative command starts from.

    Raises:
        UsageError: it is none.
    """
    if not name.strip() or len(name) > 200 or not name.isprintable():
        raise UsageError("an MCP server needs a name", remedy="Of up to 200 printable characters.")
    where = f"MCP server {name!r}"
    if not isinstance(value, Mapping):
        raise UsageError(f"{where} is no object", remedy=_EXAMPLE)
    given = value.get("type", value.get("transport"))
    if given is None:
        given = "stdio" if "command" in value else "http" if "url" in value else ""
    transport = TRANSPORTS.get(given) if isinstance(given, str) else None
    if transport is None:
        raise UsageError(
            f"{where} has no transport that is known: {one_line(str(given), 60)!r}",
            remedy=_EXAMPLE,
        )
    needed = "command" if transport == "stdio" else "url"
    command, args = _command(where, value) if transport == "stdio" else ("", ())
    url = "" if transport == "stdio" else _text(where, needed, value.get("url"))
    pairs = _pairs(where, value, "env" if transport == "stdio" else "headers")
    if url and not re.match(r"https?://|\$\{", url):
        raise UsageError(f"{where} has no address by http or https", remedy=_EXAMPLE)
    return McpServer(name, transport, command, args, url, pairs, source, cwd)


def _command(where: str, value: Mapping[str, JSON]) -> tuple[str, tuple[str, ...]]:
    """Program and arguments; some files have both in one list."""
    command, args = value.get("command"), value.get("args") or []
    if isinstance(command, list) and command and not args:
        command, *args = command
    if not isinstance(args, list) or len(args) > MANY:
        raise UsageError(f"{where}: args is no list", remedy=_EXAMPLE)
    words = tuple(_text(where, "args", arg, empty=True) for arg in args)
    return _text(where, "command", command), words


def _text(where: str, key: str, value: JSON, *, empty: bool = False) -> str:
    if not isinstance(value, str) or not (value or empty) or len(value) > LONGEST or "\0" in value:
        raise UsageError(f"{where}: {key} is no text", remedy=_EXAMPLE)
    return value


def _pairs(where: str, value: Mapping[str, JSON], key: str) -> Pairs:
    """Variables or header fields: an object, or the list that the protocol has."""
    given = value.get(key, value.get("environment") if key == "env" else None) or {}
    if isinstance(given, list):
        try:
            given = {item["name"]: item["value"] for item in given}
        except (TypeError, KeyError) as error:
            raise UsageError(f"{where}: {key} has items without a name") from error
    if not isinstance(given, Mapping) or len(given) > MANY:
        raise UsageError(f"{where}: {key} is no object", remedy=f'For example {{"{key}": {{}}}}.')
    pairs = []
    for name, item in given.items():
        text = item if isinstance(item, str) else json.dumps(item)
        pairs.append((_text(where, key, name), _text(where, key, text, empty=True)))
    return tuple(pairs)


def _filled(text: str, known: Mapping[str, str], cwd: str, server: str, put_in: set[str]) -> str:
    """A text with its variables; what is put in goes into ``put_in``, too."""

    def value_of(match: re.Match[str]) -> str:
        return _value(match[1], known, cwd, server, put_in)

    return _VARIABLE.sub(value_of, text)


def _value(written: str, known: Mapping[str, str], cwd: str, server: str, put_in: set[str]) -> str:
    if written == "workspaceFolder":
        return cwd
    name, colon, default = written.removeprefix("env:").partition(":-")
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f"MCP server {server!r} has ${{{one_line(written, 60)}}}, which cannot be put in here",
            remedy="Write a variable of the environment in its place: ${NAME}.",
        )
    if name in known:
        if not os.path.isabs(known[name]):
            put_in.add(known[name])
        return known[name]
    if not colon:
        raise UsageError(
            f"MCP server {server!r} needs the environment variable {name}, which is not set",
            remedy="Set it where Jupyter is started. Jupyter's own are never given to a server.",
        )
    return default


def _digest(value: JSON) -> str:
    held = json.dumps(value, ensure_ascii=False)
    return hashlib.sha256(held.encode("utf-8", "surrogatepass")).hexdigest()
