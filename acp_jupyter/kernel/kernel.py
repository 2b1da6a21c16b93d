"""`ACPKernel`: a thin surface of Jupyter messages over `host.Host`.

It is an IPython kernel, so that widgets, magics, ``display`` and ``%%python`` cells work; what
differs is what a cell is (`cells`). No exception leaves `do_execute`: one that did would leave the
cell without a reply.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import signal
import threading
from typing import Any

from ipykernel.ipkernel import IPythonKernel

from .. import __version__
from ..errors import ACPError
from ..experiments.magic import CheckMagics
from ..host.cell import CellContext, kernel_cell
from ..host.completion import Completion, complete
from ..host.host import Host
from ..host.link import cancelled
from ..host.live import Live
from ..magics import AcpMagics, commands
from ..questions.comms import CommTap
from .cells import Cell, parse_cell, python_lines

BANNER = (
    "ACP Agent: a cell is a prompt for a coding agent. "
    "%acp connect demo starts the bundled one, %acp help lists the commands."
)


class ACPKernel(IPythonKernel):
    """The kernel class; see the module."""

    implementation = "acp_jupyter"
    implementation_version = __version__
    language_info = {  # noqa: RUF012  # a plain attribute, as in the base class
        "name": "acp",
        "version": __version__,
        # JupyterLab has a mode for Markdown with mathematics and fenced code under this name.
        "mimetype": "text/x-ipythongfm",
        "codemirror_mode": "ipythongfm",
        "pygments_lexer": "markdown",
        "file_extension": ".md",
    }
    help_links = [  # noqa: RUF012
        {"text": "Agent Client Protocol", "url": "https://agentclientprotocol.com"},
    ]
    banner = BANNER

    # Declared as optional upstream; a running kernel has them.
    shell: Any
    session: Any
    _shell_parent_ident: Any

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._in_prompt = False
        self._tap = CommTap(self) if CommTap.supported(self) else None
        self.host = Host(self, self._tap, os.environ)
        self._cell: contextvars.ContextVar[CellContext] = contextvars.ContextVar("acp_cell")
        self.host.displays.install()
        self.shell.input_transformer_manager.cleanup_transforms.append(python_lines)
        self.shell.register_magics(AcpMagics(self.shell, self.host, self._cell.get))
        self.shell.register_magics(CheckMagics(self.shell, self.host, self._cell.get))
        self.host.live = Live(self.host, self._tap, self._complete)
        self.host.live.open()

    # -- messages that pass through ------------------------------------------------------------

    async def shell_channel_thread_main(self, msg: list[Any]) -> None:
        """Called by ipykernel with each shell message, on the shell channel thread."""
        if self._tap is None:
            await super().shell_channel_thread_main(msg)
        else:
            await self._tap.intercept(msg, super().shell_channel_thread_main)

    @property
    def kernel_info(self) -> dict[str, Any]:
        info: dict[str, Any] = dict(super().kernel_info)
        features = [name for name in info.get("supported_features", ()) if name != "debugger"]
        return {**info, "supported_features": features, "debugger": False}

    async def interrupt_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Called on the control thread; a running prompt is cancelled without a signal.

        Nor does a prompt's cell get one that is about to end: it would be lost with its reply, or
        the event loop with it.
        """
        if not self.host.interrupt() and not self._in_prompt:
            await super().interrupt_request(stream, ident, parent)
            return
        self.session.send(stream, "interrupt_reply", {"status": "ok"}, parent, ident=ident)

    async def do_shutdown(self, restart: bool) -> dict[str, Any]:
        """Called on the control thread: no process stays behind."""
        await asyncio.to_thread(self.host.close)
        reply: dict[str, Any] = super().do_shutdown(restart)
        return reply

    # -- running cells -------------------------------------------------------------------------

    async def do_execute(
        self,
        code: str,
        silent: bool,
        store_history: bool = True,
        user_expressions: dict[str, str] | None = None,
        allow_stdin: bool = False,
        *,
        cell_meta: dict[str, Any] | None = None,
        cell_id: str | None = None,
    ) -> dict[str, Any]:
        """Run one cell; see `cells` for what that is."""
        try:
            return await self._execute(
                code, silent, store_history, user_expressions, allow_stdin, cell_meta, cell_id
            )
        except (Exception, KeyboardInterrupt) as error:  # a cell without a reply would run for ever
            self.log.exception("Error in a cell")
            failure = ACPError(
                f"internal error: {type(error).__name__}: {error}",
                remedy="The kernel's log has the details. This is a bug; please report it.",
            )
            return self._finish(code, store_history, user_expressions, failure)

    async def _execute(
        self,
        code: str,
        silent: bool,
        store_history: bool,
        user_expressions: dict[str, str] | None,
        allow_stdin: bool,
        cell_meta: dict[str, Any] | None,
        cell_id: str | None,
    ) -> dict[str, Any]:
        store_history = store_history and not silent
        try:
            cell = parse_cell(
                code,
                line_magics=self._magics("line"),
                cell_magics=self._magics("cell"),
                subcommands=commands(),
                tags=_tags(cell_meta),
            )
            context = self._context(silent, allow_stdin)
        except ACPError as error:
            return self._finish(code, store_history, user_expressions, error, silent=silent)
        token = self._cell.set(context)
        try:
            if cell.python or (cell.magics and not cell.prompt):
                reply = await super().do_execute(
                    code,
                    silent,
                    store_history,
                    user_expressions,
                    allow_stdin,
                    cell_meta=cell_meta,
                    cell_id=cell_id,
                )
                return dict(reply)
            return await self._run(
                code, cell, context, silent, store_history, user_expressions, allow_stdin, cell_id
            )
        finally:
            self._cell.reset(token)

    async def _run(
        self,
        code: str,
        cell: Cell,
        context: CellContext,
        silent: bool,
        store_history: bool,
        user_expressions: dict[str, str] | None,
        allow_stdin: bool,
        cell_id: str | None,
    ) -> dict[str, Any]:
        payload: list[dict[str, Any]] = []
        for line in cell.magics:
            reply = await super().do_execute(line, True, False, None, allow_stdin, cell_id=cell_id)
            payload += reply["payload"]
            if reply["status"] != "ok":  # IPython has shown the error
                return {**reply, "execution_count": self._count(code, store_history)}
        error: ACPError | None = None
        if cell.prompt:
            try:
                await self._prompt(cell.prompt, context)
            except ACPError as failure:
                error = failure
        reply = self._finish(code, store_history, user_expressions, error, silent=silent)
        return {**reply, "payload": payload}

    async def _prompt(self, text: str, context: CellContext) -> None:
        self._take_sigint()
        link = self.host.link()
        cwd = link.session.cwd if link.session is not None else self.host.cwd
        # The prompt's own cell goes into the history when it has ended.
        prompt = self.host.gather(text, namespace=self.shell.user_ns, cwd=cwd, running=False)
        job = link.submit(context, link.prompt, prompt)
        try:
            await asyncio.wrap_future(job)
        except asyncio.CancelledError as error:
            job.cancel()
            raise cancelled() from error

    def _context(self, silent: bool, allow_stdin: bool) -> CellContext:
        return kernel_cell(self, self.host.frontend(allow_stdin=allow_stdin), silent=silent)

    def _finish(
        self,
        code: str,
        store_history: bool,
        user_expressions: dict[str, str] | None,
        error: ACPError | None,
        *,
        silent: bool = False,
    ) -> dict[str, Any]:
        """The reply; shows the error, if there is one."""
        count = self._count(code, store_history)
        if error is None:
            return {
                "status": "ok",
                "execution_count": count,
                "payload": [],
                "user_expressions": self.shell.user_expressions(user_expressions or {}),
            }
        content = error_content(error)
        if not silent:
            self.send_response(self.iopub_socket, "error", content, ident=self._topic("error"))
        return {"status": "error", "execution_count": count, "user_expressions": {}, **content}

    def _count(self, code: str, store_history: bool) -> int:
        """Remember the cell; the count of before, as the protocol wants it in the reply."""
        count: int = self.shell.execution_count
        if store_history:
            self.shell.history_manager.store_inputs(count, code)
            self.shell.execution_count += 1
        return count

    def _magics(self, kind: str) -> dict[str, Any]:
        magics: dict[str, Any] = self.shell.magics_manager.magics[kind]
        return magics

    def _take_sigint(self) -> None:
        """From here to the end of the cell SIGINT cancels the turn; it would end the event loop."""
        if threading.current_thread() is threading.main_thread():
            self._in_prompt = True
            signal.signal(signal.SIGINT, lambda *_: self.host.interrupt())

    def post_handler_hook(self) -> None:
        """Called by ipykernel when a message was handled, on the thread that did it."""
        super().post_handler_hook()  # SIGINT is ignored again; fails on other threads than main
        self._in_prompt = False

    # -- help while typing ---------------------------------------------------------------------

    def _complete(self, code: str, cursor: int) -> Completion | None:
        """In any thread; ``None`` where Python's completion is meant."""
        session = self.host.link().session
        return complete(
            code,
            cursor,
            line_magics=list(self._magics("line")),
            cell_magics=list(self._magics("cell")),
            agents=self.host.settings.agents,
            commands=session.transcript.info.commands if session is not None else [],
            mentions=self.host.complete,
            typed=self.host.link().typed,
        )

    async def do_complete(self, code: str, cursor_pos: int) -> dict[str, Any]:
        found = self._complete(code, cursor_pos)
        if found is None:
            return dict(super().do_complete(code, cursor_pos))
        return {
            "status": "ok",
            "matches": found.matches,
            "cursor_start": found.start,
            "cursor_end": cursor_pos,
            "metadata": {"_jupyter_types_experimental": found.types},
        }

    async def do_inspect(
        self, code: str, cursor_pos: int, detail_level: int = 0, omit_sections: Any = ()
    ) -> dict[str, Any]:
        if _is_python(code) or code.lstrip().startswith("%"):
            return dict(super().do_inspect(code, cursor_pos, detail_level, omit_sections))
        return {"status": "ok", "found": False, "data": {}, "metadata": {}}

    async def do_is_complete(self, code: str) -> dict[str, Any]:
        if not _is_python(code):
            return {"status": "complete"}
        reply = dict(super().do_is_complete(code))
        if reply["status"] == "complete" and code.splitlines()[-1].strip():
            # As IPython has it for cell magics: a blank line ends the cell, or nobody could write
            # a second statement in a console.
            return {"status": "incomplete", "indent": ""}
        return reply


def error_content(error: ACPError) -> dict[str, Any]:
    """The content of an ``error`` message."""
    traceback = error._render_traceback_()
    return {
        "ename": type(error).__name__,
        "evalue": traceback[0].partition(": ")[2],
        "traceback": traceback,
    }


def _tags(metadata: dict[str, Any] | None) -> list[str]:
    """A cell's tags; what a client sends there need not have that form."""
    tags = (metadata or {}).get("tags")
    return [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []


def _is_python(code: str) -> bool:
    return code.lstrip().startswith("%%python")
