"""Comm messages for us while the main thread is busy: the tap.

ipykernel hands a click on a widget to the thread that runs cells, or to a subshell, depending on
its version and on the frontend; a cell that waits for the click may then wait for ever. All shell
messages pass through one thread first, "Shell channel", which is always free. The tap sits there:
messages of the comms registered with it are answered at once, everything else goes on its way.

It reaches into ipykernel (7.x) at two points: `Kernel.shell_channel_thread_main`, and the
attributes of `Kernel` named in `CommTap.supported`. Where they are missing the tap says so, and
questions go to standard input instead.

A handler runs on that thread, in a copy of the context in which it was registered: what it sends
belongs to the same cell as the widget. It must not block: it resolves a future through the portal.

Beside the widgets of questions there are comms that frontends open (`CommTap.serve`). They belong
to no cell; the tap alone knows them, ipykernel's comm manager never hears of them.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Final

CommHandler = Callable[[dict[str, Any]], None]
OpenedHandler = Callable[[Any], None]

OpenHandler = Callable[[str], None]
"""Called with the id of a comm that a frontend has opened."""

CloseHandler = Callable[[], None]

CONTROL_TARGET: Final = "jupyter.widget.control"
"""Target of the comms by which a page that was loaded anew asks for the widgets' state."""


class CommTap:
    """Answers the messages of registered comms on the shell channel thread.

    Args:
        kernel: the running ``ipykernel.kernelbase.Kernel``.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._handlers: dict[str, tuple[contextvars.Context, CommHandler]] = {}
        self._targets: dict[str, OpenHandler] = {}
        self._opened: dict[str, tuple[OpenedHandler, CloseHandler]] = {}
        self._lock = threading.Lock()
        self._mended = False

    @classmethod
    def supported(cls, kernel: Any) -> bool:
        """Whether this ipykernel has what the tap rests on."""
        return (
            all(
                hasattr(kernel, name)
                for name in (
                    "shell_channel_thread",
                    "shell_channel_thread_main",
                    "comm_manager",
                    "_publish_status",
                )
            )
            and getattr(kernel, "shell_channel_thread", None) is not None
        )

    def register(self, comm_id: str, handler: CommHandler) -> None:
        """Let ``handler`` get the data of that comm's messages. Before the widget is displayed:
        the first click may come at once."""
        with self._lock:
            self._handlers[comm_id] = (contextvars.copy_context(), handler)

    def forget(self, comm_id: str) -> None:
        """Messages that are still on their way are dropped with the comm, unanswered."""
        with self._lock:
            self._handlers.pop(comm_id, None)

    def serve(self, target: str, opened: OpenHandler | None) -> None:
        """Have comms answered that frontends open for a target; ``None`` ends it. ``opened``
        calls `adopt`."""
        with self._lock:
            if opened is None:
                self._targets.pop(target, None)
            else:
                self._targets[target] = opened

    def adopt(self, comm_id: str, handler: OpenedHandler, closed: CloseHandler) -> None:
        """Let ``handler`` get the data of a comm's messages until `drop`; ``closed`` is called
        each time that a frontend closes it."""
        with self._lock:
            self._opened[comm_id] = (handler, closed)

    def drop(self, comm_id: str) -> None:
        """End what `adopt` began."""
        with self._lock:
            self._opened.pop(comm_id, None)

    async def intercept(
        self, frames: list[Any], pass_on: Callable[[list[Any]], Awaitable[None]]
    ) -> None:
        """Answer a message here, or pass it on. Called on the shell channel thread."""
        if not self._mended:
            self._mend()
        message = self._peek(frames)
        if message is None:
            await pass_on(frames)
            return
        header = message["header"]
        session = self._kernel.session
        content = session.unpack(message["content"])
        handled = self._find(header["msg_type"], content)
        if handled is None:
            await pass_on(frames)
            return
        # Widgets only go on after the kernel was busy and idle for their message.
        parent = {"header": header}
        self._kernel._publish_status("busy", "shell", parent=parent)
        try:
            handled(message, content)
        finally:
            self._kernel._publish_status("idle", "shell", parent=parent)

    def _mend(self) -> None:
        """Before 7.4 ipykernel sends replies past the stream that reads the same socket; a click
        that comes just then, and all that follow it, are not noticed any more (its issue 1554)."""
        manager = self._kernel.shell_channel_thread.manager
        if hasattr(manager, "_shell_socket"):
            manager._shell_socket = self._kernel.shell_stream  # sends as the socket does
        self._mended = True

    def _peek(self, frames: list[Any]) -> dict[str, Any] | None:
        """The message with its content still packed, if it is a comm's; checks no signature, so
        that whoever it is passed on to can."""
        session = self._kernel.session
        if session is None:
            return None
        _, rest = session.feed_identities(frames, copy=False)
        if len(rest) < 5:
            return None
        header = session.unpack(rest[1].bytes)
        if header.get("msg_type") not in ("comm_msg", "comm_open", "comm_close"):
            return None
        content = session.unpack(rest[4].bytes)
        if self._find(header["msg_type"], content) is None:
            return None
        # It is for us, so this is the one place that verifies its signature. What fails here
        # fails again where it is passed on to, and is logged there.
        try:
            return dict(session.deserialize(rest, content=False, copy=False))
        except ValueError:
            return None

    def _find(
        self, kind: str, content: dict[str, Any]
    ) -> Callable[[dict[str, Any], dict[str, Any]], None] | None:
        comm_id = content.get("comm_id")
        if not isinstance(comm_id, str):
            return None
        if kind == "comm_open":
            with self._lock:
                opened = self._targets.get(str(content.get("target_name")))
            if opened is not None:
                return lambda _message, _content: opened(comm_id)
            # Only while a question is open: at any other time the kernel answers by itself.
            if content.get("target_name") == CONTROL_TARGET and self._handlers:
                return self._open_control
            return None
        with self._lock:
            found = self._handlers.get(comm_id)
            ours = self._opened.get(comm_id)
        if ours is not None:
            take, closed = ours
            if kind == "comm_close":
                return lambda _message, _content: closed()
            return lambda _message, content: take(content.get("data"))
        if found is None:
            return None
        context, handler = found
        if kind == "comm_close":
            return lambda _message, content: self.forget(content["comm_id"])
        # A context can only be entered once at a time; its copy is ours alone.
        return lambda _message, content: context.copy().run(handler, _data(content))

    def _open_control(self, message: dict[str, Any], content: dict[str, Any]) -> None:
        """A page was loaded anew while a question is open: let the widgets answer from here."""
        comm_id = content["comm_id"]
        with self._lock:
            context = next((context for context, _ in self._handlers.values()), None)
        if context is None:
            return  # answered in the meantime: the page has the decision, not the buttons

        def open_comm() -> None:
            self._kernel.comm_manager.comm_open(None, None, {**message, "content": content})
            self.register(comm_id, lambda data: self._control(comm_id, data))

        context.copy().run(open_comm)

    def _control(self, comm_id: str, data: dict[str, Any]) -> None:
        comm = self._kernel.comm_manager.get_comm(comm_id)
        if comm is not None:
            comm.handle_msg({"content": {"comm_id": comm_id, "data": data}, "buffers": []})


def _data(content: dict[str, Any]) -> dict[str, Any]:
    """A message's data; what is no object says nothing to a widget."""
    data = content.get("data")
    return data if isinstance(data, dict) else {}
