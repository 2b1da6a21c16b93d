"""What is said on the wire, for those who look at it: new lines, without secrets, bounded."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ..connection.connection import LOG_LINE, LogLine
from ..connection.environment import redact, secret_values
from ..protocol.secrets import REDACTED
from ..rendering.ansi import strip
from ..rendering.characters import visible

if TYPE_CHECKING:
    from ..client.agent import Agent

LINES: Final = 500
"""Lines of one message; a gap in their numbers is where there were more."""

CHARACTERS: Final = 200_000
"""Of all lines of one message."""

LINE_CHARACTERS: Final = 20_000


class WireTail:
    """Reads the lines of a link's agent that came since it was read last. On the trio thread.

    Args:
        environ: the kernel's environment; its secrets are replaced like those of the agent's.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._agent: Agent | None = None
        self._secrets: frozenset[str] = frozenset()
        self._concealed: frozenset[str] = frozenset()
        self._messages = 0
        self._errors = 0
        self._number = 0

    def read(self, agent: Agent, now: float) -> list[dict[str, Any]]:
        """The new lines, those of a new agent from its first one on; ``now`` is trio's time."""
        if agent is not self._agent:
            self._agent = agent
            self._messages = self._errors = 0
            self._concealed = frozenset()
        if agent.secrets is not self._concealed:
            self._concealed = agent.secrets
            values = agent.secrets | secret_values(self._environ)
            self._secrets = frozenset(_spellings(values))
        new_messages = agent.log_count - self._messages
        new_errors = agent.errors_count - self._errors
        self._messages += new_messages
        self._errors += new_errors
        if not new_messages and not new_errors:
            return []
        found = [
            *(
                ("sent" if line.sent else "received", line)
                for line in _last(agent.log, new_messages)
            ),
            *(("stderr", line) for line in _last(agent.errors, new_errors)),
        ]
        found.sort(key=lambda pair: pair[1].time)
        self._number += new_messages + new_errors
        first = self._number - len(found) + 1
        epoch = time.time() - now
        numbered = list(enumerate(found, first))[-LINES:]
        lines = [
            {
                "number": number,
                "direction": direction,
                "time": int((line.time + epoch) * 1000),
                "text": self._text(line),
            }
            for number, (direction, line) in numbered
        ]
        return _within(lines)

    def _text(self, line: LogLine) -> str:
        # Colours go before secrets are looked for: one could be split by them.
        text = redact(strip(line.line.decode("utf-8", "replace")).rstrip(), self._secrets)
        if len(line.line) >= LOG_LINE:  # it was cut, perhaps in the middle of a secret
            text = _without_start_of(text, self._secrets) + "…"
        return visible(text)[:LINE_CHARACTERS]


def _last(lines: Iterable[LogLine], count: int) -> list[LogLine]:
    return list(lines)[-count:] if count else []


def _within(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last lines that are `CHARACTERS` together."""
    total = 0
    for index in range(len(lines) - 1, -1, -1):
        total += len(lines[index]["text"])
        if total > CHARACTERS:
            return lines[index + 1 :]
    return lines


def _spellings(secrets: Iterable[str]) -> Iterable[str]:
    """The secrets, and how JSON writes them."""
    for secret in secrets:
        yield secret
        yield json.dumps(secret)[1:-1]
        yield json.dumps(secret, ensure_ascii=False)[1:-1]


def _without_start_of(text: str, secrets: Iterable[str]) -> str:
    """A text that was cut, without the beginning of a secret at its end."""
    for secret in secrets:
        for length in range(min(len(secret), len(text)), 3, -1):
            if text.endswith(secret[:length]):
                return text[:-length] + REDACTED
    return text
