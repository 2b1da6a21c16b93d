"""A prompt turn as an object: what was said, done, asked and spent."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..errors import TurnError
from ..session.cells import CodeBlock, code_blocks
from ..session.changes import FileChange
from ..session.transcript import (
    CellsEntry,
    ElicitationEntry,
    Entry,
    MessageEntry,
    PermissionEntry,
    PlanEntry,
    ProposedCell,
    TerminalState,
    ToolCallEntry,
)
from ..session.transcript import Turn as TurnState

if TYPE_CHECKING:
    from ..client.agent import Agent
    from ..client.session import Session
    from ..experiments.checking import Checks
    from ..services.workspace.snapshot import Snapshot

__all__ = ["CodeBlock", "FileChange", "FileDiff", "Timings", "Turn", "last_turn"]


@dataclass(frozen=True, slots=True)
class FileDiff:
    """A change of one file that a tool call reported.

    Attributes:
        path: as the agent gave it.
        old: the text before; ``None`` for a new file.
        new: the text after.
        patch: a git patch instead of texts (protocol version 2), else empty.
    """

    path: str
    old: str | None
    new: str
    patch: str = ""


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds, each from the moment the prompt was sent.

    Attributes:
        first_chunk: until the agent first sent anything; ``None`` if it never did.
        duration: until the end; ``None`` while the turn runs.
    """

    first_chunk: float | None
    duration: float | None


class Turn:
    """A prompt turn; made by a session. It can be pickled, and displays itself in a notebook.

    Late updates of the agent still change it, as they change the notebook's output.

    Attributes:
        number: 1, 2, … in its session.
        agent: name and version of the agent.
        session_id: the agent's id of the session.
        prompt: the content blocks that were sent.
        cwd: the session's working directory.
    """

    def __init__(
        self,
        state: TurnState,
        *,
        agent: str,
        session_id: str,
        cwd: str,
        terminals: Mapping[str, TerminalState],
    ) -> None:
        self._state = state
        self._terminals = terminals
        self.agent = agent
        self.session_id = session_id
        self.cwd = cwd

    @property
    def number(self) -> int:
        return self._state.number

    @property
    def prompt(self) -> list[dict[str, Any]]:
        return self._state.prompt

    @property
    def entries(self) -> list[Entry]:
        """Everything, in order (`acp_jupyter.session.transcript`)."""
        return list(self._state.entries)

    @property
    def text(self) -> str:
        """The answer: the agent's messages, a blank line between two; Markdown."""
        return "\n\n".join(text.strip("\n") for text in self._messages("agent"))

    @property
    def thoughts(self) -> list[str]:
        """What the agent thought aloud."""
        return self._messages("thought")

    @property
    def tool_calls(self) -> list[ToolCallEntry]:
        """Tool calls with ``title``, ``kind``, ``status``, ``content``, ``raw_input`` and so on."""
        return [entry for entry in self._state.entries if isinstance(entry, ToolCallEntry)]

    @property
    def diffs(self) -> list[FileDiff]:
        """The changes that tool calls reported, in order."""
        found = []
        for call in self.tool_calls:
            for item in call.content:
                if item.get("type") == "diff":
                    found += _diffs(item)
        return found

    @property
    def changes(self) -> list[FileChange]:
        """The files that changed on the disk while it ran, whoever changed them, by path.

        Empty also where nobody looked: the setting ``changes`` is off, or the agent works
        elsewhere. `changes_unknown` says what could not be found out.
        """
        found = self._state.changes
        return [] if found is None else list(found.files)

    @property
    def changes_unknown(self) -> list[str]:
        """What is not known about `changes`, a sentence each; empty if all is."""
        found = self._state.changes
        if found is None:
            return ["Nobody looked at the files."]
        more = [f"{found.more:,} further files changed."] if found.more else []
        return [*found.notes, *more]

    @property
    def patch(self) -> str:
        """`changes` of the session's folder as a patch for ``git apply``, run in that folder.

        Files whose change has a ``note`` in place of a ``diff`` are not in it.
        """
        found = self._state.changes
        if found is None:
            return ""
        roots = {os.path.realpath(self.cwd), ""}
        return "".join(change.diff for change in found.files if change.root in roots)

    @property
    def plan(self) -> list[dict[str, Any]]:
        """The last plan's items ``{"content", "priority", "status"}``; empty if there was none."""
        plans = [entry for entry in self._state.entries if isinstance(entry, PlanEntry)]
        return next((plan.items for plan in reversed(plans) if not plan.removed), [])

    @property
    def permissions(self) -> list[PermissionEntry]:
        """What was asked, with ``state``, ``decided_by``, ``reason`` and times."""
        return [entry for entry in self._state.entries if isinstance(entry, PermissionEntry)]

    @property
    def elicitations(self) -> list[ElicitationEntry]:
        """What the agent asked by form or web address, with ``state``, ``answers`` and times."""
        return [entry for entry in self._state.entries if isinstance(entry, ElicitationEntry)]

    @property
    def usage(self) -> dict[str, Any]:
        """What the agent reported: ``used``, ``size``, ``cost``, token counts; may be empty."""
        return dict(self._state.usage)

    @property
    def stop_reason(self) -> str | None:
        """end_turn, max_tokens, max_turn_requests, refusal, cancelled; ``None`` if it failed."""
        return self._state.stop_reason

    @property
    def error(self) -> str:
        """Why it failed; empty if it did not."""
        return self._state.error

    @property
    def timings(self) -> Timings:
        state = self._state
        first, ended = state.first_chunk, state.ended
        return Timings(
            first_chunk=None if first is None else first - state.started,
            duration=None if ended is None else ended - state.started,
        )

    @property
    def code_blocks(self) -> list[CodeBlock]:
        """The fenced code blocks of the answer, in order."""
        return [block for text in self._messages("agent") for block in code_blocks(text)]

    @property
    def cells(self) -> list[ProposedCell]:
        """The cells that were proposed, with ``language``, ``source`` and ``state``."""
        entries = [entry for entry in self._state.entries if isinstance(entry, CellsEntry)]
        return [cell for entry in entries for cell in entry.cells]

    def raise_for_stop_reason(self) -> Turn:
        """Itself, if the agent ended the turn by itself.

        Raises:
            TurnError: it stopped for another reason, or failed.
        """
        if self.stop_reason == "end_turn":
            return self
        why = self.error or self.stop_reason or "unknown"
        raise TurnError(f"turn {self.number} did not end by itself: {why}")

    def check(
        self,
        *lines: str,
        snapshot: Snapshot | None = None,
        timeout: float = 60.0,
        fail: bool = False,
        **named: object,
    ) -> Checks:
        """Check what the turn did: ``turn.check("changed src/*.py", tool_used="edit", cost=0.05)``.

        Args:
            lines: checks as in ``%%acp_check`` (`acp_jupyter.session.checks`).
            snapshot: from `Session.snapshot`; by default files are compared with how they were
                before this turn.
            timeout: seconds for each command.
            fail: raise where one does not pass.
            named: checks by name, with ``_`` for spaces; ``cost``, ``seconds`` and ``tokens`` are
                upper limits, a list stands for several checks.

        Raises:
            UsageError: a check cannot be read, or the turn is still running.
            CheckFailed: one did not pass, with ``fail``.
        """
        from ..experiments.checking import from_arguments, run_checks
        from .surroundings import report_checks

        checks = run_checks(
            from_arguments(lines, named),
            self._state,
            terminals=self._terminals,
            cwd=self.cwd,
            snapshot=snapshot,
            timeout=timeout,
        )
        report_checks(checks.as_json())
        return checks.raise_for_failure() if fail else checks

    def __repr__(self) -> str:
        return (
            f"<Turn {self.number} of {self.agent}: {self.stop_reason or self.error or 'running'}, "
            f"{len(self.text):,} characters, {len(self.tool_calls)} tool calls>"
        )

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """Called by IPython to display it."""
        from ..rendering import html, text

        terminals = dict(self._terminals)
        shown = [entry for entry in self._state.entries if not getattr(entry, "echo", False)]
        return {
            "text/html": "".join(
                str(html.render(entry, terminals=terminals, cwd=self.cwd)) for entry in shown
            ),
            "text/plain": "\n".join(
                text.render(entry, terminals=terminals, cwd=self.cwd) for entry in shown
            ),
        }

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        # A terminal's decoder is the wire's business, and cannot be pickled.
        state["_terminals"] = {
            ident: replace(terminal, decoder=None, shown_by=None)
            for ident, terminal in dict(self._terminals).items()
            if terminal.turn == self.number
        }
        return state

    def _messages(self, role: str) -> list[str]:
        return [
            entry.text
            for entry in self._state.entries
            if isinstance(entry, MessageEntry) and entry.role == role
        ]


def last_turn(agent: Agent, session: Session) -> Turn:
    """The last turn of a session, as it is shown to the user's programs."""
    from ..host.banner import agent_title

    return Turn(
        session.transcript.turn,
        agent=agent_title(agent),
        session_id=session.session_id,
        cwd=session.cwd,
        terminals=session.transcript.terminals,
    )


def _diffs(item: dict[str, Any]) -> list[FileDiff]:
    if type(item.get("path")) is str:
        old, new = item.get("oldText"), item.get("newText")
        return [
            FileDiff(
                item["path"],
                old if type(old) is str else None,
                new if type(new) is str else "",
            )
        ]
    changes, patch = item.get("changes"), item.get("patch")
    text = patch.get("text") if type(patch) is dict else None
    return [
        FileDiff(change["path"], None, "", text if type(text) is str else "")
        for change in (changes if type(changes) is list else [])
        if type(change) is dict and type(change.get("path")) is str
    ]
