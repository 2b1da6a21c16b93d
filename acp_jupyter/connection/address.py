"""Where a remote agent is, and what may be said to it there.

Pure functions. Rules:

- Everything goes over TLS, or to this machine: an address that is neither is refused, unless the
  user's own configuration says ``insecure``; a token is not sent there even then.
- A token is never a part of an address. Addresses are shown, logged, recorded and saved.
- Without a path an address means ``/acp``, as the proposal for remote transports has it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlsplit

from ..errors import UsageError

if TYPE_CHECKING:
    from http.cookiejar import CookieJar

__all__ = ["Address", "RemoteSource", "is_address", "parse"]

PORTS: Final = {"ws": 80, "wss": 443, "http": 80, "https": 443}

DEFAULT_PATH: Final = "/acp"

_SECRET_NAME = re.compile(
    r"token|secret|passw|credential|auth|api_?key|access_?key|^key$|^sig$|signature|jwt|bearer",
    re.IGNORECASE,
)
_PRINTABLE = re.compile(r"[\x21-\x7e]+")
_FIELD_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_FIELD_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,8190}[\x21-\x7e])?")

OWN_FIELDS: Final = frozenset(
    {
        *("accept", "accept-encoding", "acp-connection-id", "acp-protocol-version"),
        *("acp-session-id", "connection", "content-length", "content-type", "cookie", "expect"),
        *("host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "via"),
    }
)
"""Header fields that are the transport's to set."""


@dataclass(frozen=True, slots=True)
class Address:
    """An address that was found to be usable.

    Attributes:
        scheme: ws, wss, http or https.
        host: name or IP address, without brackets.
        port: as written, or the scheme's own.
        target: path and query.
    """

    scheme: str
    host: str
    port: int
    target: str

    @property
    def tls(self) -> bool:
        return self.scheme in ("wss", "https")

    @property
    def websocket(self) -> bool:
        return self.scheme in ("ws", "wss")

    @property
    def authority(self) -> str:
        """Host and port as the Host field has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Whether it is this machine."""
        if self.host.rstrip(".").lower() == "localhost":
            return True
        from ipaddress import ip_address  # for those who connect remotely only

        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def http_url(self) -> str:
        """The same with http or https in place of ws or wss: cookies know no others."""
        return f"{'https' if self.tls else 'http'}://{self.authority}{self.target}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


def _new_jar() -> CookieJar:
    from http.cookiejar import CookieJar  # which imports much, for those who connect remotely only

    return CookieJar()


@dataclass(frozen=True, slots=True)
class RemoteSource:
    """How to reach a remote agent.

    Attributes:
        url: where it is.
        token_env: name of the environment variable that holds the token.
        credential_helper: program and arguments that print the token.
        headers: further header fields; their values are secrets.
        insecure: no TLS needed, for networks that are secured otherwise.
        cookies: what the server has set; they go back to it when the connection is made again, so
            that a load balancer finds the same server.
    """

    url: str
    token_env: str = ""
    credential_helper: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    insecure: bool = False
    cookies: CookieJar = field(default_factory=_new_jar, compare=False, repr=False)

    def __post_init__(self) -> None:
        address = parse(self.url)
        if self.token_env and self.credential_helper:
            raise UsageError(
                "a token comes from a variable or from a credential helper, not from both",
                remedy='Leave out "token_env" or "credential_helper".',
            )
        if not address.tls and not address.loopback:
            self._check_insecure(address)
        for name, value in self.headers.items():
            _check_field(name, value)

    def _check_insecure(self, address: Address) -> None:
        secure = "wss" if address.websocket else "https"
        if not self.insecure:
            raise UsageError(
                f"{address} is on another machine, and {address.scheme}:// is not encrypted",
                remedy=f"Use {secure}://. In a network that is secured otherwise, set "
                '"insecure": true for this agent in the configuration.',
            )
        if self.token_env or self.credential_helper or self.headers:
            raise UsageError(
                f"no token is sent to {address}: it is on another machine, and "
                f"{address.scheme}:// is not encrypted",
                remedy=f"Use {secure}://.",
            )

    @property
    def address(self) -> Address:
        return parse(self.url)


def is_address(text: str) -> bool:
    """Whether a text is meant as an address of a remote agent."""
    return text.partition("://")[0].lower() in PORTS and "://" in text


def parse(url: str) -> Address:
    """Understand an address.

    Raises:
        UsageError: it is none, or has something in it that does not belong there. The text does
            not repeat what may be a secret.
    """
    if _PRINTABLE.fullmatch(url) is None or "\\" in url:
        raise UsageError(
            "the address has characters in it that no address has",
            remedy="Write spaces and letters beyond ASCII as %XX.",
        )
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"this is no address: {error}") from error
    if "@" in parts.netloc:
        raise UsageError(
            "an address with a user name or a password in it is not used: addresses are shown",
            remedy="Put the token into an environment variable, and name it: --token-env NAME.",
        )
    scheme = parts.scheme.lower()
    if scheme not in PORTS or not host:
        raise UsageError(
            "this is no address of an agent",
            remedy="They look like wss://example.org/acp or https://example.org/acp.",
        )
    secret = [n for n, _ in parse_qsl(parts.query, True) if _SECRET_NAME.search(n)]
    if secret:
        raise UsageError(
            f"the address seems to hold a secret ({secret[0][:40]}=…): addresses are shown",
            remedy="Put the token into an environment variable, and name it: --token-env NAME.",
        )
    if parts.fragment:
        raise UsageError("an agent's address has no part after #", remedy="Leave it out.")
    target = parts.path or DEFAULT_PATH
    if parts.query:
        target += f"?{parts.query}"
    return Address(scheme, host, PORTS[scheme] if port is None else port, target)


def _check_field(name: str, value: str) -> None:
    lower = name.lower()
    if _FIELD_NAME.fullmatch(name) is None or _FIELD_VALUE.fullmatch(value) is None:
        raise UsageError(
            f"the header field {name[:100]!r} cannot be sent",
            remedy="A name is letters, digits and hyphens; a value is printable ASCII.",
        )
    if lower in OWN_FIELDS or lower.startswith(("sec-", "proxy-")):
        raise UsageError(f"the header field {name} is not yours to set", remedy="Leave it out.")
