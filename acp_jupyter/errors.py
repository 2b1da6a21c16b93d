"""Every error that acp_jupyter raises on purpose, in one tree.

::

    ACPError                      what went wrong, and what to do next (``remedy``)
    ├── UsageError                the user asked for something that does not exist or cannot be
    ├── ProtocolError
    │   ├── LocalProtocolError    we were about to break the protocol; nothing was sent
    │   └── RemoteProtocolError   the agent broke the protocol
    │       └── LineTooLong       one message larger than the limit
    ├── AgentError                the agent as a process (``stderr`` holds its last lines)
    │   ├── AgentNotFound         the command could not be started
    │   ├── AgentExited           the process, or its output, ended
    │   │   └── ConnectionLost    the connection to a remote agent ended
    │   ├── ConnectionFailed      a remote agent was not reached, or it refused the connection
    │   ├── AgentUnresponsive     it does not read, or does not stop
    │   ├── AgentCrashLoop        it crashed too often to start it again unasked
    │   └── VersionMismatch       no protocol version in common
    ├── RequestError              the agent answered a request with a JSON-RPC error
    │   └── AuthenticationRequired
    ├── TurnError
    │   ├── TurnCancelled         the user, or a limit, cancelled the turn
    │   └── TurnRunning           a turn is still running in that session
    ├── CheckFailed               a check did not pass, and was to fail then
    └── Refusal                   our answer to a request of the agent that we do not serve

Foreign exceptions (``OSError``, ``trio.BrokenResourceError``, ``msgspec.DecodeError``) are
translated where they happen, with ``raise … from``, and appear nowhere else.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = [
    "ACPError",
    "AgentCrashLoop",
    "AgentError",
    "AgentExited",
    "AgentNotFound",
    "AgentUnresponsive",
    "AuthenticationRequired",
    "CheckFailed",
    "ConnectionFailed",
    "ConnectionLost",
    "ErrorCode",
    "LineTooLong",
    "LocalProtocolError",
    "ProtocolError",
    "Refusal",
    "RemoteProtocolError",
    "RequestError",
    "TurnCancelled",
    "TurnError",
    "TurnRunning",
    "UsageError",
    "VersionMismatch",
]


class ErrorCode:
    """JSON-RPC 2.0 and ACP error codes (schema: ``ErrorCode``)."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    REQUEST_CANCELLED = -32800
    AUTH_REQUIRED = -32000
    RESOURCE_NOT_FOUND = -32002
    UNSUPPORTED_VERSION = -32022  # of version 2
    URL_ELICITATION_REQUIRED = -32042  # of MCP's, which agents pass on


class ACPError(Exception):
    """Base of all errors of this package.

    Args:
        message: one line, what happened.
        remedy: one line, what the user can do next; may be empty.
    """

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}\n{self.remedy}" if self.remedy else self.message

    def _render_traceback_(self) -> list[str]:
        """Called by IPython in place of a traceback: the text, without frames of our code."""
        first, *rest = _harmless(str(self)).splitlines() or [""]
        return [f"\x1b[0;31m{type(self).__name__}\x1b[0m: {first}", *rest]


_CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
)


def _harmless(text: str) -> str:
    """Agent text in an error: a frontend obeys the terminal escapes of a traceback."""
    return _CONTROLS.sub(lambda match: ascii(match[0])[1:-1], text)


class UsageError(ACPError):
    """A magic, option, agent name or argument that does not exist or does not fit."""


class ProtocolError(ACPError):
    """Base of breaches of JSON-RPC or ACP."""


class LocalProtocolError(ProtocolError):
    """The call would have made us break the protocol; nothing was sent."""


class RemoteProtocolError(ProtocolError):
    """The agent sent something that cannot be understood or acted on."""


class LineTooLong(RemoteProtocolError):
    """The agent sent one line beyond the limit; the line was thrown away unread."""


class AgentError(ACPError):
    """Base of errors of the agent's process.

    Args:
        stderr: the last lines the agent wrote to its standard error, secrets removed.
    """

    def __init__(self, message: str, *, remedy: str = "", stderr: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.stderr = stderr

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text}\nLast lines of the agent's stderr:\n{self.stderr}" if self.stderr else text


class AgentNotFound(AgentError):
    """The agent's command does not exist or may not be executed."""


class AgentExited(AgentError):
    """The agent's process ended, or its standard output did.

    Args:
        returncode: the exit status; negative for a signal, ``None`` if it still runs.
    """

    def __init__(
        self,
        message: str,
        *,
        remedy: str = "",
        stderr: str = "",
        returncode: int | None = None,
    ) -> None:
        super().__init__(message, remedy=remedy, stderr=stderr)
        self.returncode = returncode


class ConnectionLost(AgentExited):
    """The connection to a remote agent ended, with what was under way on it."""


class ConnectionFailed(AgentError):
    """A remote agent could not be reached, or refused the connection.

    Args:
        status: the HTTP status that it answered with; ``None`` without an answer.
    """

    def __init__(self, message: str, *, remedy: str = "", status: int | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.status = status


class AgentUnresponsive(AgentError):
    """The agent neither answered nor stopped within the time it had."""


class AgentCrashLoop(AgentError):
    """The agent crashed again and again; only an explicit restart starts it once more."""


class VersionMismatch(AgentError):
    """Agent and client share no protocol version."""


class RequestError(ACPError):
    """The agent answered a request with a JSON-RPC error object.

    Args:
        code: ``error.code``; any integer.
        data: ``error.data`` as sent; ``None`` when absent.
    """

    def __init__(self, message: str, *, code: int, data: Any = None, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.code = code
        self.data = data


class AuthenticationRequired(RequestError):
    """The agent wants the user to log in first (error -32000)."""


class TurnError(ACPError):
    """Base of errors of a prompt turn."""


class TurnCancelled(TurnError):
    """The turn was cancelled; what had arrived is kept."""


class TurnRunning(TurnError):
    """The session is still busy with an earlier prompt."""


class CheckFailed(ACPError):
    """A check of a turn did not pass."""


class Refusal(ACPError):
    """Our negative answer to a request of the agent; becomes the JSON-RPC error of that request.

    Args:
        code: JSON-RPC error code, see `ErrorCode`.
        data: optional ``error.data`` for the agent.
    """

    def __init__(
        self, message: str, *, code: int = ErrorCode.INVALID_PARAMS, data: Any = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.data = data
