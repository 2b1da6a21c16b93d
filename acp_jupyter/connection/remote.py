"""A remote agent: one that was started by others and is reached by WebSocket or streamable HTTP.

`open_remote` chooses by the address. What both have in common is here: TLS, cookies, how an answer
that is not the expected one is told, and the state of a connection that has no process.

Rules:

- TLS is verified against the system's trust store, always. ``SSL_CERT_FILE`` and ``SSL_CERT_DIR``
  add an authority of one's own, as for every program that uses OpenSSL.
- A redirect is never followed: the token would go along.
- No Origin is sent: that is a browser's to say, and servers check it against browsers.
- What the other side says is cleaned before it stands in an error, and the token taken out of it.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from email.message import Message
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit
from urllib.request import Request

import trio

from ..errors import ACPError, ConnectionFailed, ConnectionLost, UsageError
from .address import Address, RemoteSource
from .credentials import Credentials, credentials_of
from .environment import redact
from .stdio import one_line
from .transport import Transport

if TYPE_CHECKING:
    from http.cookiejar import CookieJar

__all__ = ["RemoteTransport", "open_remote"]

CONNECT_LIMIT: Final = 20.0
"""Seconds for a connection to be there: name, TCP, TLS, and the WebSocket's handshake."""

SHOWN: Final = 200
"""Characters shown of what a server says of a refusal."""


class RemoteTransport:
    """What the transports to remote agents share, see `transport.Transport`.

    Args:
        name: what the user calls the agent.
        address: where it is.
        credentials: what goes with each request.
    """

    pid = None
    returncode = None

    def __init__(self, name: str, address: Address, credentials: Credentials) -> None:
        self._name = name
        self._address = address
        self._credentials = credentials
        self._reason = ""
        self._failure: ACPError | None = None

    def __repr__(self) -> str:
        state = self._reason or "connected"
        return f"<{type(self).__name__} {self._name!r} {self._address}: {state}>"

    async def _connect(self, protocol: str) -> tuple[trio.abc.Stream, trio.SocketStream]:
        """A stream to the agent, and what it goes over.

        Args:
            protocol: what is agreed on by ALPN where it goes over TLS.
        """
        address = self._address
        tcp = await trio.open_tcp_stream(address.host, address.port)
        if not address.tls:
            return tcp, tcp
        context = ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols([protocol])
        secure = trio.SSLStream(tcp, context, server_hostname=address.host, https_compatible=True)
        try:
            await secure.do_handshake()
        except BaseException:
            await trio.aclose_forcefully(tcp)
            raise
        return secure, tcp

    @property
    def secrets(self) -> frozenset[str]:
        """What must not be shown of what is sent and received."""
        return self._credentials.secrets

    @property
    def failure(self) -> ACPError | None:
        """See `transport.Transport`."""
        return self._failure

    def ending(self) -> str:
        """See `transport.Transport`."""
        return self._reason or "closed the connection"

    def stderr_tail(self, lines: int = 20) -> str:  # noqa: ARG002  # it is on another machine
        return ""

    def survivors(self) -> list[str]:
        return []

    def _shown(self, text: str) -> str:
        """Text of the other side, safe to show."""
        return one_line(redact(text.strip(), self.secrets)[: SHOWN + 1])[:SHOWN]

    def _lost(self) -> ConnectionLost:
        return ConnectionLost(
            f"agent {self._name!r} {self.ending()}",
            remedy="Run the cell again to connect anew.",
        )

    def _unreached(self, error: BaseException) -> ConnectionFailed:
        """The error for a connection that did not come about."""
        reason = self._shown(_root(error))
        return ConnectionFailed(
            f"agent {self._name!r} was not reached at {self._address}: {reason}",
            remedy="Check the address, and that the agent runs there."
            if "CERTIFICATE" not in reason
            else "Its certificate is not trusted here. For an authority of your own, set "
            "SSL_CERT_FILE where Jupyter is started.",
        )

    def _too_slow(self) -> ConnectionFailed:
        return ConnectionFailed(
            f"agent {self._name!r} at {self._address} did not answer within {CONNECT_LIMIT:.0f} s",
            remedy="Check the address, and that no firewall is between.",
        )

    def _refused(self, status: int, location: str = "", text: str = "") -> ConnectionFailed:
        """The error for an answer that refuses the connection, or a message."""
        remedy = _REMEDIES.get(status, "Check the address, and what the server's log says.")
        what = f"agent {self._name!r} at {self._address} answered with HTTP status {status}"
        if 300 <= status < 400:
            where = urlsplit(location).netloc.rpartition("@")[2]
            what += f", a redirect to {self._shown(where)}" if where else ", a redirect"
            remedy = "Redirects are not followed, as the token would go along: use the new address."
        elif text:
            what += f": {self._shown(text)}"
        if status in (401, 403) and not self._credentials.headers:
            remedy = "It wants a token: put it into an environment variable, and name the variable "
            remedy += "(--token-env NAME), or configure a credential helper."
        return ConnectionFailed(what, remedy=remedy, status=status)


_REMEDIES: Final = {
    400: "The server may speak another version of the protocol's proposal for remote transports.",
    401: "Its token is not valid (any more): set a new one.",
    403: "Its token does not allow this, or the server accepts no such client.",
    404: "Nothing is at this path; agents are often at /acp.",
    406: "The server does not offer event streams; try ws:// or wss:// instead.",
    415: "The server does not take JSON; try ws:// or wss:// instead.",
    426: "The server wants a WebSocket: use ws:// or wss:// in place of http:// or https://.",
    429: "The server has too much to do: wait a moment.",
    501: "The server cannot do this; try ws:// or wss:// instead.",
    503: "The server has too much to do, or its agent does not run.",
}


def _root(error: BaseException) -> str:
    """What went wrong in the end: libraries wrap it in errors of their own and in groups."""
    text = str(error)
    below: BaseException | None = error
    while below is not None:
        if isinstance(below, BaseExceptionGroup):
            below = below.exceptions[0]
        if isinstance(below, ssl.SSLError) or not getattr(below, "strerror", None):
            text = str(below) or text
        elif isinstance(below, OSError):
            text = below.strerror or text
        below = below.__cause__
    return text or type(error).__name__


def cookie_header(jar: CookieJar, address: Address) -> str:
    """The Cookie field for a request there; may be empty."""
    request = Request(address.http_url)  # noqa: S310  # made for its cookies, never opened
    jar.add_cookie_header(request)
    return request.get_header("Cookie") or ""


def keep_cookies(jar: CookieJar, address: Address, fields: Iterable[tuple[bytes, bytes]]) -> None:
    """Take over what an answer from there has set."""
    message = Message()
    for name, value in fields:
        if name.lower() == b"set-cookie":
            message["Set-Cookie"] = value.decode("latin-1")
    request = Request(address.http_url)  # noqa: S310  # as above
    jar.extract_cookies(_Answer(message), request)  # type: ignore[arg-type]


class _Answer:
    """What a cookie jar wants to know of an answer."""

    def __init__(self, message: Message) -> None:
        self._message = message

    def info(self) -> Message:
        return self._message


@asynccontextmanager
async def open_remote(
    source: RemoteSource, *, name: str, environ: Mapping[str, str], version: str
) -> AsyncIterator[Transport]:
    """Connect to a remote agent; on leaving, the connection is closed.

    Args:
        source: where it is, and where its token comes from.
        name: what the user calls it.
        environ: the environment for the token.
        version: of this package.

    Raises:
        UsageError: a library is missing, or there is no token where one was named.
        ConnectionFailed: it could not be reached, or refused.
    """
    address = source.address
    try:
        if address.websocket:
            from .websocket import open_websocket as opened
        else:
            from .streamable_http import open_http as opened  # type: ignore[assignment]
    except ImportError as error:
        raise UsageError(
            f"remote agents need the package {error.name}, which is not installed",
            remedy='Install it: pip install "acp-jupyter[remote]"',
        ) from error
    credentials = await credentials_of(source, environ)
    async with opened(source, credentials, name=name, version=version) as transport:
        yield transport
