"""What a frontend asks of the kernel, other than to be told the state.

Each request is looked at closely: it comes from a frontend of the kernel, which acts for its user,
but the page may be older or newer than this kernel. `Requests.act` and `Requests.set_option` run
on the trio thread, `Requests.work` in a thread of its own, because it reads files.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ..errors import UsageError
from ..rendering.characters import one_line
from .live_state import open_questions, question_id

if TYPE_CHECKING:
    from ..client.session import Session
    from .completion import Completion
    from .host import Host
    from .link import Link

JSON = Any
Request = dict[str, Any]
Completer = Callable[[str, int], "Completion | None"]
"""Completes code at a cursor, in any thread; ``None`` where Python's completion is meant."""

LONGEST_CODE: Final = 1_000_000
FORMATS: Final = ("html", "md", "json")


class Requests:
    """See the module.

    Args:
        host: whose agents they are about.
        folder: the notebook's.
        complete: the surface's.
    """

    def __init__(self, host: Host, folder: str, complete: Completer) -> None:
        self._host = host
        self._folder = folder
        self._complete = complete
        self.act: dict[str, Callable[[Request], JSON]] = {
            "answer": self._answer,
            "cancel": self._cancel,
            "cells": self._cells,
            "stop": self._stop,
            "attach": self._attach,
        }
        self.work: dict[str, Callable[[Request], JSON]] = {
            "complete": self._completion,
            "export": self._export,
        }

    def link(self, request: Request) -> Link:
        """The link that a request names.

        Raises:
            UsageError: there is none.
        """
        key = _field(request, "link", str)
        for link in self._host.all_links():
            if link.key == key:
                return link
        raise UsageError("this kernel has no such agent any more", remedy="Connect it again.")

    # -- on the trio thread --------------------------------------------------------------------

    async def set_option(self, request: Request) -> JSON:
        """Set an option of the link's current session."""
        session = self.link(request).session
        if session is None:
            raise UsageError("no agent is connected", remedy="Run `%acp connect` first.")
        value = request.get("value")
        if type(value) is not str and type(value) is not bool:
            raise UsageError("an option's value is a text, or true or false")
        await session.set_option(_field(request, "option", str), value)

    def _answer(self, request: Request) -> JSON:
        session, entry = self._question(request)
        choice = request.get("choice", "")
        if choice is not None and (type(choice) is not int or not 0 <= choice < len(entry.options)):
            raise UsageError("this question has no such choice", remedy="Answer it in its cell.")
        if not session.permissions.answer(entry, choice):
            raise _too_late()

    def _question(self, request: Request) -> tuple[Session, Any]:
        link = self.link(request)
        agent = link.agent
        ident = _field(request, "question", str)
        if any(asked.ident == ident for asked in link.asked):
            raise _in_its_cell()
        for session in agent.sessions.values() if agent is not None else ():
            for entry in open_questions(session):
                if question_id(session, entry) != ident:
                    continue
                if entry not in session.permissions.pending:
                    raise _in_its_cell()
                return session, entry
        raise _too_late()

    def _cancel(self, request: Request) -> JSON:
        if not self.link(request).interrupt():
            raise UsageError("nothing is running that could be stopped")

    def _cells(self, request: Request) -> JSON:
        ident, state = _field(request, "entry", str), _field(request, "state", str)
        index = _field(request, "index", int)
        for link in self._host.all_links():
            for session in link.agent.sessions.values() if link.agent is not None else ():
                if session.mark_cell(ident, index, state):
                    return
        raise UsageError("the session that proposed this cell has ended")

    def _stop(self, request: Request) -> JSON:
        self._host.terminals.stop(_terminal(request))

    def _attach(self, request: Request) -> JSON:
        return {"command": self._host.terminals.attach(_terminal(request))}

    # -- in a thread of its own ----------------------------------------------------------------

    def _completion(self, request: Request) -> JSON:
        code, end = _field(request, "code", str), _field(request, "cursor", int)
        units = code.encode("utf-16-le", "surrogatepass")
        if len(code) > LONGEST_CODE or not 0 <= end <= len(units) // 2:
            raise UsageError("the cursor is not in the code")
        # JavaScript counts a character beyond U+FFFF as two.
        found = self._complete(code, len(units[: 2 * end].decode("utf-16-le", "replace")))
        if found is None:
            return {"start": end, "end": end, "matches": []}
        start = len(code[: found.start].encode("utf-16-le", "surrogatepass")) // 2
        matches = [
            {
                "text": match["text"],
                "type": match["type"],
                "signature": one_line(match["signature"], 300),
            }
            for match in found.types
            if match["text"].isprintable()
        ]
        return {"start": start, "end": end, "matches": matches}

    def _export(self, request: Request) -> JSON:
        to, redact = _field(request, "to", str), _field(request, "redact", bool)
        if to not in FORMATS:
            raise UsageError(f"a notebook is exported to one of {', '.join(FORMATS)}")
        path = self._notebook(_field(request, "path", str))
        from ..export import export_file

        stem = os.path.splitext(os.path.basename(path))[0]
        return {"name": f"{stem}.{to}", "text": export_file(path, to, redact=redact)}

    def _notebook(self, given: str) -> str:
        path = os.path.realpath(os.path.join(self._folder, given))
        if os.path.commonpath([path, self._folder]) != self._folder or "\0" in given:
            raise UsageError(
                "only notebooks below the kernel's folder are exported from here",
                remedy="Use `acp-jupyter export` on the command line for others.",
            )
        if not os.path.isfile(path):
            raise UsageError(f"{one_line(given)} is not there", remedy="Save the notebook first.")
        return path


def _terminal(request: Request) -> int:
    """The number in the id of a terminal; 0 is none's."""
    number = _field(request, "terminal", str).removeprefix("term_")
    return int(number) if number.isdecimal() and len(number) < 10 else 0


def _field(request: Request, name: str, kind: type[Any]) -> Any:
    value = request.get(name)
    if type(value) is not kind:
        raise UsageError(f"the request {one_line(request.get('type'), 40)!r} needs a {name}")
    return value


def _in_its_cell() -> UsageError:
    return UsageError("a form is filled in where it is shown, in its cell")


def _too_late() -> UsageError:
    return UsageError("this question was answered already, or withdrawn")
