"""A cell's output as Jupyter messages: thread-safe, and bound to the cell's own request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..display import Bundle

if TYPE_CHECKING:
    from ipykernel.kernelbase import Kernel


class KernelSink:
    """Publishes on the kernel's IOPub channel, from any thread.

    Args:
        kernel: the running kernel.
        parent: the cell's ``execute_request``.
    """

    def __init__(self, kernel: Kernel, parent: dict[str, Any]) -> None:
        self._kernel = kernel
        self._parent = parent

    def display(
        self, data: Bundle, *, display_id: str, update: bool, metadata: Bundle | None = None
    ) -> None:
        transient = {"display_id": display_id}
        content = {"data": data, "metadata": metadata or {}, "transient": transient}
        self._send("update_display_data" if update else "display_data", content)

    def show(self, data: Bundle) -> None:
        self._send("display_data", {"data": data, "metadata": {}, "transient": {}})

    def stream(self, text: str) -> None:
        self._send("stream", {"name": "stdout", "text": text})

    def _send(self, kind: str, content: dict[str, Any]) -> None:
        kernel = self._kernel
        if kernel.session is not None:
            kernel.session.send(
                kernel.iopub_socket, kind, content, parent=self._parent, ident=kernel._topic(kind)
            )


class SilentSink:
    """For cells that must show nothing."""

    def display(
        self, _data: Bundle, *, display_id: str, update: bool, metadata: Bundle | None = None
    ) -> None:
        """Drop it."""

    def show(self, _data: Bundle) -> None:
        """Drop it."""

    def stream(self, _text: str) -> None:
        """Drop it."""
