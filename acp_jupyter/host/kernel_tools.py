"""The live kernel as an MCP server: what an agent can ask of the notebook that shares it.

Rules:

- Nothing is shared unless the user says so (`%acp share kernel`), and each thing is asked for by
  name in the cell whose turn runs: a variable, the last plot, the last error are "read" for the
  policy, code is "execute". "Always" holds for that name, or that very code, in that session.
- Values are described as mentions are (`values`), bounded, on the main thread (`main_thread`).
- Code runs in a namespace of its own, made of the notebook's variables: what it assigns stays
  there, for its next run. What it changes within an object is changed: the question says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import trio

from .. import __version__
from ..protocol import mcp
from ..rendering.characters import clip
from .foreign import attempt, type_name
from .history import ShellCells
from .scratch import run_code
from .values import VALUE_LIMIT, describe_value, error_attachment

if TYPE_CHECKING:
    from ..client.session import Session
    from ..session.attachments import Attachment
    from .host import Host

Dict = dict[str, Any]

READ_LIMIT: Final = 30.0
RUN_LIMIT: Final = 30.0
"""Seconds for looking at a value, and for code, waiting for the main thread included."""

LOOK_AGAIN: Final = 0.1
"""Seconds in which it is noticed that the turn was stopped."""

LISTED: Final = 500
"""Variables of a list."""

LOOKED_AT: Final = 50
"""Cells that are looked through for the last plot."""

LONGEST_NAME: Final = 200
LONGEST_CODE: Final = 20_000
"""Characters."""

INSTRUCTIONS: Final = (
    "The live Python kernel of the user's Jupyter notebook. The user is asked before anything is "
    "shown or run. Values are shortened. Code runs in a scratch namespace that starts with the "
    "notebook's variables; its assignments do not reach the notebook."
)

TOOLS: Final = (
    mcp.Tool(
        "list_variables",
        "List variables",
        "Names, types and sizes of the variables in the user's notebook.",
    ),
    mcp.Tool(
        "look_at_variable",
        "Look at a variable",
        "A variable of the user's notebook: a data frame's schema, summary and first rows, an "
        "array's shape and statistics, a figure as a picture, else its repr; shortened.",
        {"name": {"type": "string", "description": "The variable's name."}},
    ),
    mcp.Tool("last_plot", "Last plot", "The last picture that a cell of the notebook displayed."),
    mcp.Tool("last_error", "Last error", "The last exception of the notebook, with its code."),
    mcp.Tool(
        "run_code",
        "Run code in a scratch namespace",
        "Run Python in the user's kernel, in a namespace of its own that starts with the "
        "notebook's variables. Returns what it prints, the value of its last line, and its plots.",
        {"code": {"type": "string", "description": "Python, without magics."}},
        reads=False,
    ),
)


class KernelTools:
    """The tools, for one session.

    Args:
        host: of the notebook.
        session: whose user is asked; ``None`` while it is not open, and when nothing is shared.
    """

    def __init__(self, host: Host, session: Callable[[], Session | None]) -> None:
        self._host = host
        self._session = session
        self._scratch: Dict = {}

    def server(self) -> mcp.Server:
        """The MCP server that has them."""
        info = {"name": "jupyter-kernel", "title": "Jupyter kernel", "version": __version__}
        return mcp.Server(info, INSTRUCTIONS, TOOLS, self._call)

    async def _call(self, tool: str, arguments: Mapping[str, str]) -> list[Dict]:
        """Ask for consent, then do it; on the trio thread.

        Raises:
            ToolError: the user said no, or it cannot be done.
        """
        match tool:
            case "list_variables":
                await self._ask("read", "Show the agent the names, types and sizes of variables")
                return await self._on_main_thread(self._list, READ_LIMIT)
            case "look_at_variable":
                name = arguments["name"]
                if not name.isidentifier() or len(name) > LONGEST_NAME:
                    raise mcp.ToolError("that is no name of a variable")
                await self._ask("read", f"Show the agent the variable {name}")
                return await self._on_main_thread(lambda: self._look(name), READ_LIMIT)
            case "last_plot":
                await self._ask("read", "Show the agent the last plot")
                return await self._on_main_thread(self._last_plot, READ_LIMIT)
            case "last_error":
                await self._ask("read", "Show the agent the last error")
                return await self._on_main_thread(self._last_error, READ_LIMIT)
        code = arguments["code"]
        if len(code) > LONGEST_CODE:
            raise mcp.ToolError(f"code may have {LONGEST_CODE:,} characters")
        await self._ask("execute", "Run code with the notebook's variables", code)
        shell = self._host.kernel.shell
        return await self._on_main_thread(lambda: run_code(shell, code, self._scratch), RUN_LIMIT)

    async def _ask(self, kind: str, title: str, code: str = "") -> None:
        session = self._session()
        if session is None:
            raise mcp.ToolError("the kernel is not shared any more, or the session not open")
        identity = json.dumps([title, code])
        decision = await session.questions.ask_shared(kind, title, identity, code)
        if decision.state != "allowed":
            reason = f": {decision.reason}" if decision.reason else ""
            raise mcp.ToolError(f"This was not allowed{reason}.")

    async def _on_main_thread(self, function: Callable[[], list[Dict]], limit: float) -> list[Dict]:
        """Call it there, for as long as the turn goes on that it was allowed in."""
        results: list[list[Dict]] = []
        failures: list[mcp.ToolError] = []

        async def call() -> None:
            try:
                results.append(await self._host.main_thread.run(function, limit=limit))
            except mcp.ToolError as error:
                failures.append(error)
            except TimeoutError as error:
                failures.append(mcp.ToolError(f"{error}; nothing more was done"))
            except KeyboardInterrupt:
                failures.append(mcp.ToolError("the user interrupted it"))
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            while self._turn_goes_on():  # noqa: ASYNC110 - a transcript tells nobody
                await trio.sleep(LOOK_AGAIN)
            nursery.cancel_scope.cancel()
        if failures:
            raise failures[0]
        if not results:
            raise mcp.ToolError("the turn was stopped")
        return results[0]

    def _turn_goes_on(self) -> bool:
        session = self._session()
        if session is None:
            return False
        turn = session.transcript.turn
        return turn.running and not turn.cancel_requested

    # -- on the main thread --------------------------------------------------------------------

    @property
    def _cells(self) -> ShellCells:
        shell = self._host.kernel.shell
        return ShellCells(shell, running=False, displays=self._host.displays)

    def _variables(self) -> Dict:
        """The user's variables, without what IPython put there, and hidden ones."""
        shell = self._host.kernel.shell
        hidden = shell.user_ns_hidden
        return {
            name: value
            for name, value in list(shell.user_ns.items())
            if not name.startswith("_") and name not in hidden
        }

    def _list(self) -> list[Dict]:
        known = self._variables()
        lines = [
            {"name": name, "type": attempt(type_name, value), **_size(value)}
            for name, value in sorted(known.items())[:LISTED]
        ]
        found: Dict = {"variables": lines}
        if len(known) > LISTED:
            found["left_out"] = len(known) - LISTED
        return [mcp.text(json.dumps(found, ensure_ascii=True))]

    def _look(self, name: str) -> list[Dict]:
        known = self._variables()
        if name not in known:
            raise mcp.ToolError(f"there is no variable {name}; list_variables lists them")
        return [block(describe_value(known[name], name, self._cells))]

    def _last_plot(self) -> list[Dict]:
        cells = self._cells
        last = cells.count + 1  # also of the cell that runs, where that is one of the shell's
        for number in range(last, max(0, last - LOOKED_AT), -1):
            shown = self._host.displays.of(number) if number > cells.count else ()
            pictures = [item for bundle in shown for item in bundle.items() if "image/" in item[0]]
            if number <= cells.count:
                pictures += cells.output(number).images
            if pictures:
                mime, data = pictures[-1]
                return [mcp.image(data, mime)]
        raise mcp.ToolError("no cell has displayed a picture")

    def _last_error(self) -> list[Dict]:
        error = self._cells.error()
        if error is None:
            raise mcp.ToolError("no cell has failed")
        return [block(error_attachment(error, "error", self._cells))]


def block(attachment: Attachment) -> Dict:
    """What describes a value, as a block of a tool's result."""
    if attachment.kind == "image":
        return mcp.image(attachment.data, attachment.mime)
    note = f"\n\n({attachment.note})" if attachment.note else ""
    return mcp.text(str(clip(attachment.text, VALUE_LIMIT)) + note)


def _size(value: Any) -> Dict:
    """Shape or length, where there is one that is plain numbers."""
    shape = attempt(getattr, value, "shape", None)
    if isinstance(shape, tuple) and all(type(side) is int for side in shape):
        return {"shape": list(shape)}
    if type(value) in (str, bytes, list, tuple, dict, set, frozenset):
        return {"length": len(value)}
    return {}
