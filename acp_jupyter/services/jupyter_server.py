"""The Jupyter server that started this kernel: found and asked from inside the kernel.

Rules:

- Found by what it cannot get wrong: the file that a server writes for its own user alone (mode
  0600), named by a process that is our ancestor. Another program that inherited the variable, or
  another user's file, is none.
- The token goes to that server's own address and nowhere else: no redirect is followed, no proxy
  asked. It appears in no error, log, representation or environment of a child.
- Every answer is bounded in size, every request in time, and what is cancelled stops.

Works alike for a server with a base URL, with a token, with none (then a write needs the cookie
and the header of its protection against forged requests), and behind JupyterHub, whose servers
write the hub's token into the same file.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import secrets
import stat
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec
import trio

from ..errors import ErrorCode, Refusal

__all__ = ["Answer", "JupyterServer", "ServerInfo", "Unreachable", "find_server", "kernel_id"]

RUNTIME_FILE: Final = 2**16
"""Bytes of a server's file; real ones have some 300."""

ANCESTORS: Final = 32
"""How many processes up the server is looked for: a launcher or two may stand between."""

IDLE_LIMIT: Final = 30.0
TOTAL_LIMIT: Final = 120.0
"""Seconds without a byte, and in all, after which a request is given up."""

SMALL: Final = 2**20
"""Bytes of an answer without content."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """How to reach a server.

    Attributes:
        url: with a slash at the end, base URL included.
        root: the directory it serves, resolved; for a contents manager that keeps its files
            elsewhere only a name.
        token: empty where it has none.
    """

    url: str
    root: str
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server answered.

    Attributes:
        status: of HTTP.
        body: decoded JSON; ``None`` where there was none.
    """

    status: int
    body: Any


class Unreachable(Refusal):
    """The server did not answer.

    Args:
        gone: nobody listens at its address any more.
    """

    def __init__(self, message: str, *, gone: bool = False) -> None:
        super().__init__(message, code=ErrorCode.INTERNAL_ERROR)
        self.gone = gone


# -- finding it -----------------------------------------------------------------------------------


def find_server(environ: Mapping[str, str]) -> ServerInfo | None:
    """The server that started this kernel; ``None`` if none did, or it cannot be told for sure."""
    named = environ.get("JPY_PARENT_PID", "")
    if not named.isdigit() or not hasattr(os, "getuid"):
        return None
    pid = int(named)
    if pid not in _ancestors():
        return None
    from jupyter_core.paths import jupyter_runtime_dir

    facts = _read_private(Path(jupyter_runtime_dir()) / f"jpserver-{pid}.json")
    return None if facts is None else _info(facts, pid, environ)


def _info(facts: Any, pid: int, environ: Mapping[str, str]) -> ServerInfo | None:
    match facts:
        case {"pid": int(found), "url": str(url), "root_dir": str(root)} if found == pid:
            token = facts.get("token")
        case _:
            return None
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or not os.path.isabs(root):
        return None  # a server on a UNIX socket has another scheme
    if not isinstance(token, str) or not token:
        token = environ.get("JPY_API_TOKEN") or environ.get("JUPYTERHUB_API_TOKEN") or ""
    return ServerInfo(url.rstrip("/") + "/", os.path.realpath(root), token)


def _read_private(path: Path) -> Any:
    """JSON of a file that nobody but its owner, us, can read or write; else ``None``."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        private = stat.S_ISREG(status.st_mode) and not status.st_mode & 0o077
        if not private or status.st_uid != os.getuid() or status.st_size > RUNTIME_FILE:
            return None
        try:
            return json.loads(file.read(RUNTIME_FILE))
        except (ValueError, RecursionError):
            return None


def _ancestors() -> Iterator[int]:
    pid = os.getppid()
    for _ in range(ANCESTORS):
        if pid <= 0:
            return
        yield pid
        pid = _parent_of(pid)


def _parent_of(pid: int) -> int:
    """0 if it cannot be told."""
    try:
        # The name in parentheses may hold anything, the numbers follow the last one.
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
        return int(text.rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        pass
    try:  # macOS has no /proc
        command = ["/bin/ps", "-o", "ppid=", "-p", str(pid)]
        shown = subprocess.run(
            command, capture_output=True, text=True, timeout=1, check=False, env={}
        )
        return int(shown.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return 0


def kernel_id(connection_file: str) -> str:
    """The server's id of the kernel whose connection file that is; empty if it has none."""
    match = re.fullmatch(r"kernel-([0-9a-fA-F-]{36})\.json", os.path.basename(connection_file))
    return match.group(1) if match else ""


# -- asking it ------------------------------------------------------------------------------------


class JupyterServer:
    """A server's REST API. Each request is a connection of its own, made in a thread.

    Args:
        info: how to reach it.
    """

    def __init__(self, info: ServerInfo) -> None:
        self.info = info
        # What a browser gets from the server as a cookie and sends back in a header; any value
        # will do, for what counts is that both are the same.
        self._xsrf = secrets.token_hex(16)

    def __repr__(self) -> str:
        return f"JupyterServer({self.info.url!r})"

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        largest: int = SMALL,
    ) -> Answer:
        """Ask the server.

        Args:
            method: of HTTP.
            path: below ``api/``, its parts separated by ``/`` and not quoted.
            query: parameters.
            body: sent as JSON, if given.
            largest: bytes of the answer.

        Raises:
            Unreachable: no answer came, or none that can be used.
            Refusal: the answer is larger.
        """
        connection = self._connection()
        target = quote(urlsplit(self.info.url).path, safe="/%") + "api/" + quote(path)
        if query:
            target += "?" + urlencode(query)
        try:
            with trio.fail_after(TOTAL_LIMIT):
                return await trio.to_thread.run_sync(
                    self._exchange,
                    connection,
                    method,
                    target,
                    body,
                    largest,
                    abandon_on_cancel=True,
                )
        except trio.TooSlowError:
            raise Unreachable(f"the Jupyter server did not answer in {TOTAL_LIMIT:.0f} s") from None
        finally:
            _cut(connection)

    def _connection(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.info.url)
        assert parts.hostname is not None
        make = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        return make(parts.hostname, parts.port, timeout=IDLE_LIMIT)

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        body: Any,
        largest: int,
    ) -> Answer:
        data = None if body is None else msgspec.json.encode(body)
        try:
            connection.request(method, target, data, self._headers(data))
            response = connection.getresponse()
            content = response.read(largest + 1)
        except ConnectionRefusedError:
            raise Unreachable("the Jupyter server is gone", gone=True) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            # What it says may quote the request, so only its kind is told.
            raise Unreachable(
                f"the Jupyter server could not be asked ({type(error).__name__})"
            ) from None
        finally:
            connection.close()  # also where nobody waits for it any more
        if len(content) > largest:
            raise Refusal(f"the Jupyter server's answer has more than {largest} bytes")
        return Answer(response.status, _decoded(content, response.status))

    def _headers(self, data: bytes | None) -> dict[str, str]:
        headers = {"Accept": "application/json"}
        if data is not None:
            headers["Content-Type"] = "application/json"
        if self.info.token:
            headers["Authorization"] = f"token {self.info.token}"
        else:
            headers |= {"Cookie": f"_xsrf={self._xsrf}", "X-XSRFToken": self._xsrf}
        return headers


def _decoded(content: bytes, status: int) -> Any:
    if not content:
        return None
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError):
        if status >= 300:  # a page for people
            return None
        raise Unreachable("the Jupyter server's answer is not valid JSON") from None


def _cut(connection: http.client.HTTPConnection) -> None:
    """End a connection, also one that a thread still waits for."""
    sock = connection.sock
    if sock is not None:
        try:
            sock.shutdown(2)
        except OSError:
            pass  # it has ended
    connection.close()
