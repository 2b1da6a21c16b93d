"""``%load_ext acp_jupyter``: agents in an ordinary Python notebook.

The extension adds `%acp` and `%%acp` to an IPython kernel, and a tap through which clicks arrive
while a cell waits (`questions.comms`). All its state hangs on the shell; unloading takes it away.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from .errors import UsageError
from .host.cell import CellContext, kernel_cell
from .host.host import Host

if TYPE_CHECKING:
    from .host.completion import Completion
    from .questions.comms import CommTap

ATTRIBUTE = "_acp_jupyter_host"
"""Where a shell keeps the host; found again by a second load and by the Python API."""

MATCHER = "_acp_jupyter_matcher"
"""Where it keeps what was added to its completer."""


def load(shell: Any) -> None:
    """Called by IPython for ``%load_ext`` and ``%reload_ext``; a second call changes nothing.

    Raises:
        UsageError: this is no IPython kernel.
    """
    if getattr(getattr(shell, "kernel", None), "host", None) is not None:
        return  # the agent kernel has it all
    if getattr(shell, "kernel", None) is None:
        raise UsageError(
            "acp_jupyter needs an IPython kernel",
            remedy="Load it in a notebook or in `jupyter console`; in a plain Python program use "
            "`acp_jupyter.connect`.",
        )
    from .experiments.magic import CheckMagics
    from .magics import AcpMagics

    host = host_of(shell)
    host.displays.install()
    for magics in (AcpMagics, CheckMagics):
        shell.register_magics(magics(shell, host, lambda: current_cell(shell, host)))
    if not hasattr(shell, MATCHER):
        matcher = _matcher(host)
        setattr(shell, MATCHER, matcher)
        shell.Completer.custom_matchers.append(matcher)


def unload(shell: Any) -> None:
    """Called by IPython for ``%unload_ext``: ends all agents."""
    host = getattr(shell, ATTRIBUTE, None)
    if host is None:
        return
    delattr(shell, ATTRIBUTE)
    if hasattr(shell, MATCHER):
        shell.Completer.custom_matchers.remove(getattr(shell, MATCHER))
        delattr(shell, MATCHER)
    host.close()
    host.displays.remove()
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("acp", None)
    shell.magics_manager.magics["cell"].pop("acp_check", None)
    if host.tap is not None:
        kernel = shell.kernel
        _receive(kernel, kernel.shell_channel_thread_main)


def _matcher(host: Host) -> Any:
    """What Tab offers in ``%%acp`` cells and after ``%acp``, in place of Python's names."""
    from IPython.core.completer import SimpleCompletion, context_matcher

    @context_matcher()  # type: ignore[untyped-decorator]
    def acp_jupyter(context: Any) -> Any:
        lines = context.full_text.split("\n")[: context.cursor_line + 1]
        lines[-1] = lines[-1][: context.cursor_position]
        before = "\n".join(lines)
        found = _complete(host, before)
        if found is None:
            return {"completions": []}
        return {
            "completions": [SimpleCompletion(text=match) for match in found.matches],
            "matched_fragment": before[found.start :],
            "suppress": True,
        }

    return acp_jupyter


def _complete(host: Host, before: str) -> Completion | None:
    """What fits at the end of a text, in any thread; ``None`` where Python's names are meant."""
    from .host.completion import complete

    in_cell = before.startswith("%%acp") and "\n" in before
    start = before.find("\n") + 1 if in_cell else before.rfind("\n") + 1
    text = before[start:]
    if not in_cell and not text.startswith("%acp "):
        return None
    session = host.link().session
    found = complete(
        text,
        len(text),
        line_magics=(),
        cell_magics=(),
        agents=host.settings.agents,
        commands=session.transcript.info.commands if session is not None else [],
        mentions=host.complete,
        typed=host.link().typed,
    )
    return found.shifted(start) if found is not None else None


def host_of(shell: Any) -> Host:
    """The host of an IPython shell, made if there is none."""
    host: Host | None = getattr(shell.kernel, "host", None) or getattr(shell, ATTRIBUTE, None)
    if host is None:
        host = Host(shell.kernel, _install_tap(shell.kernel), os.environ)
        setattr(shell, ATTRIBUTE, host)
        _open_live(host)
    return host


def _open_live(host: Host) -> None:
    from .host.live import Live

    host.live = Live(host, host.tap, lambda code, cursor: _complete(host, code[:cursor]))
    host.live.open()
    host.live.say_hello()


def current_cell(shell: Any, host: Host) -> CellContext:
    """The cell that the shell is running."""
    kernel = shell.kernel
    return kernel_cell(kernel, host.frontend(allow_stdin=bool(kernel._allow_stdin)))


def _install_tap(kernel: Any) -> CommTap | None:
    from .questions.comms import CommTap

    if not CommTap.supported(kernel):
        return None
    tap = CommTap(kernel)

    async def receive(frames: list[Any]) -> None:
        await tap.intercept(frames, kernel.shell_channel_thread_main)

    _receive(kernel, receive)
    return tap


def _receive(kernel: Any, callback: Any) -> None:
    """Set what gets the shell channel's messages, on the thread that reads them."""
    kernel.shell_channel_thread.io_loop.add_callback(
        kernel.shell_stream.on_recv, callback, copy=False
    )
