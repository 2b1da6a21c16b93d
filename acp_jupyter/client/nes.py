"""Next-edit suggestions from an agent that makes them, for the texts that a program asks about.

Rules:

- Nothing is sent to an agent that does not advertise ``nes``, and of what happens to a document
  only the events that it wants.
- The agent's session for that is begun with the first question, and is none of those for prompts.
- What it suggests is checked against the text that it was asked about, and changes nothing by
  itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import trio

from ..errors import AgentUnresponsive, RemoteProtocolError, UsageError
from ..protocol import nes
from ..protocol.methods import supports

if TYPE_CHECKING:
    from .agent import Agent

ANSWER_LIMIT: Final = 30.0
"""Seconds an agent has for a suggestion."""

DOCUMENTS: Final = 100
"""Documents that are open for an agent; the one that was asked about longest ago is closed."""


class NextEdits:
    """See the module. One per agent; on the trio thread.

    Args:
        agent: that is asked.
        folder: address of the folder that it is asked in.
    """

    def __init__(self, agent: Agent, folder: str) -> None:
        self._agent = agent
        self._folder = folder
        self._session = ""
        self._starting = trio.Lock()
        self._open: dict[str, tuple[int, str]] = {}

    @property
    def encoding(self) -> str:
        """How the agent counts characters."""
        return nes.encoding(self._agent.agent_capabilities)

    async def suggest(
        self, uri: str, text: str, cursor: int, *, language: str, selection: tuple[int, int] | None
    ) -> list[nes.Suggested]:
        """Ask what could be edited next.

        Args:
            uri: of the document.
            text: all of it, as it is now.
            cursor: offset in characters.
            language: the document's, as editors name it ("python").
            selection: offsets of its start and end.

        Raises:
            UsageError: the agent makes no suggestions.
            ACPError: it failed.
        """
        if not supports(self._agent.agent_capabilities, ("nes",)) or self._agent.version != 1:
            raise UsageError(
                f"agent {self._agent.spec.name!r} makes no next-edit suggestions",
                remedy="It does not advertise nes; ask it in a prompt.",
            )
        async with self._starting:  # one after the other: versions count on
            if not self._session:
                await self._start()
            version = self._show(uri, text, language)
            place = nes.position(text, cursor, self.encoding)
            self._focus(uri, text, version, place)
            params: dict[str, Any] = {
                "sessionId": self._session,
                "uri": uri,
                "version": version,
                "position": place,
                "triggerKind": "manual",
            }
            if selection is not None:
                start, end = (nes.position(text, at, self.encoding) for at in selection)
                params["selection"] = {"start": start, "end": end}
            return nes.suggestions(await self._answered("nes/suggest", params))

    def saved(self, uri: str) -> None:
        """A document that was asked about was saved."""
        if uri in self._open:
            self._tell("didSave", uri)

    def accept(self, ident: str) -> None:
        """Tell that a suggestion was taken."""
        self._agent.notify("nes/accept", {"sessionId": self._session, "id": ident})

    def reject(self, ident: str, reason: str) -> None:
        """Tell that it was not.

        Args:
            ident: the suggestion's.
            reason: "rejected", "ignored", "replaced" or "cancelled".
        """
        params = {"sessionId": self._session, "id": ident, "reason": reason}
        self._agent.notify("nes/reject", params)

    async def close(self) -> None:
        """End the session for suggestions; a later question begins a new one."""
        if self._session and self._agent.alive:
            for uri in list(self._open):
                self._tell("didClose", uri)
            await self._answered("nes/close", {"sessionId": self._session})
        self._session = ""
        self._open.clear()

    async def _start(self) -> None:
        answer = await self._answered("nes/start", {"workspaceUri": self._folder})
        ident = answer.get("sessionId") if type(answer) is dict else None
        if type(ident) is not str or not ident:
            raise RemoteProtocolError(
                "the agent's answer to nes/start has no session id",
                remedy="`%acp log` shows it; the agent needs a fix.",
            )
        self._session = ident

    def _show(self, uri: str, text: str, language: str) -> int:
        """Have the agent know a document as it is; its version."""
        known = self._open.pop(uri, None)
        version = 1 if known is None else known[0] + (known[1] != text)
        self._open[uri] = (version, text)
        if known is None:
            self._tell("didOpen", uri, languageId=language, version=version, text=text)
        elif known[1] != text:
            changes = {"text": text}
            if nes.incremental(self._agent.agent_capabilities):
                changes = nes.changed(known[1], text, self.encoding)
            self._tell("didChange", uri, version=version, contentChanges=[changes])
        if len(self._open) > DOCUMENTS:
            oldest = next(iter(self._open))
            del self._open[oldest]
            self._tell("didClose", oldest)
        return version

    def _focus(self, uri: str, text: str, version: int, place: dict[str, Any]) -> None:
        ends = (nes.position(text, at, self.encoding) for at in (0, len(text)))
        shown = dict(zip(("start", "end"), ends, strict=True))
        self._tell("didFocus", uri, version=version, position=place, visibleRange=shown)

    def _tell(self, event: str, uri: str, **more: Any) -> None:
        """Tell the agent of an event, if it wants that."""
        if event in nes.wanted(self._agent.agent_capabilities):
            params = {"sessionId": self._session, "uri": uri, **more}
            self._agent.notify(f"document/{event}", params)

    async def _answered(self, method: str, params: dict[str, Any]) -> Any:
        with trio.move_on_after(ANSWER_LIMIT):
            return await self._agent.request(method, params)
        raise AgentUnresponsive(
            f"the agent did not answer {method} within {ANSWER_LIMIT:.0f} s",
            remedy="Try again; `%acp log` shows what was said.",
        )
