"""Scenarios for `tests.scripted_agent`: written from functions of a test, read back afterwards.

A test writes what the agent does as functions inside itself; their source goes into the scenario,
so they use nothing of the test but ``agent`` (and ``agent.given``), and os, sys, time and json.
All that the client sent is held against the official schema when the test ends.
"""

from __future__ import annotations

import inspect
import json
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.acp_schema import validate_message

PROGRAM = Path(__file__).with_name("scripted_agent.py")


class Script:
    """One scenario, and what its processes recorded.

    Args:
        directory: an empty directory of its own.
        functions: by name: ``initialize``, ``new_session``, ``load_session``, ``prompt``,
            ``at_end``; each takes the agent.
        capabilities: what the agent offers.
        given: values for ``agent.given``; JSON.
        version: of the protocol that the agent speaks.

    Attributes:
        older_methods: that the client may call, or answer, though the schema does not have them.
    """

    def __init__(
        self,
        directory: Path,
        functions: dict[str, Callable[..., None]],
        *,
        capabilities: dict[str, Any] | None = None,
        given: dict[str, Any] | None = None,
        version: int = 1,
    ) -> None:
        self.older_methods: set[str] = set()
        self._record = directory / "record"
        self._record.mkdir(parents=True)
        scenario = directory / "scenario.py"
        parts = [f"VERSION = {version}", f"CAPABILITIES = {capabilities or {}!r}"]
        parts.append(f"GIVEN = {given or {}!r}")
        for name, function in functions.items():
            parts.append(textwrap.dedent(inspect.getsource(function)))
            parts.append(f"{name} = {function.__name__}")
        scenario.write_text("\n\n".join(parts), encoding="utf-8")
        self.argv = (sys.executable, str(PROGRAM), str(scenario), str(self._record))

    @property
    def name(self) -> str:
        """What the client calls the agent."""
        return PROGRAM.name

    @property
    def runs(self) -> int:
        """How many processes were started."""
        return len(list(self._record.iterdir()))

    def entries(self) -> list[dict[str, Any]]:
        """All that was recorded, oldest process first."""
        return [entry for run in self._runs() for entry in run]

    def _runs(self) -> list[list[dict[str, Any]]]:
        """The same, by process."""
        runs = []
        for path in sorted(self._record.iterdir(), key=lambda p: int(p.name.split("-")[1])):
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            runs.append([json.loads(line) for line in lines if line.endswith("\n")])
        return runs

    def notes(self, key: str) -> list[Any]:
        """The values noted under a key."""
        return [entry["value"] for entry in self.entries() if entry.get("note") == key]

    def times(self, key: str) -> list[float]:
        """When they were noted, `time.monotonic` seconds."""
        return [entry["at"] for entry in self.entries() if entry.get("note") == key]

    def received(self, method: str = "") -> list[dict[str, Any]]:
        """The messages from the client, of one method or all."""
        return [m for m in _messages(self.entries()) if not method or m.get("method") == method]

    def answers(self, ident: Any) -> list[dict[str, Any]]:
        """The client's answers to the request with that id."""
        return [m for m in self.received() if "method" not in m and m["id"] == ident]

    @property
    def pids(self) -> list[int]:
        return self.notes("pid")

    def check_schema(self) -> None:
        """Hold all that the client sent against the official schema."""
        for entries in self._runs():
            asked = {json.dumps(e["asked"][0]): e["asked"][1] for e in entries if "asked" in e}
            version = 1
            for message in _messages(entries):
                if message.get("method") == "initialize":
                    version = message["params"]["protocolVersion"]
                method = asked.get(json.dumps(message.get("id")), "_unknown")
                answers = method if "method" not in message else None
                if message.get("method", answers) not in self.older_methods:
                    validate_message("to_agent", message, version, method_of_response=answers)


def _messages(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that were received, out of their batches."""
    lines = [json.loads(entry["received"]) for entry in entries if "received" in entry]
    return [m for line in lines for m in (line if isinstance(line, list) else [line])]
