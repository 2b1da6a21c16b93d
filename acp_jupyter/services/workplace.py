"""What the sessions of an agent work on: the server's files, the notebook that runs, and the roots.

`KernelServer` is what a kernel knows of the Jupyter server that started it; a `Workplace` is what
one agent is given of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import Refusal
from ..session.transcript import ProposedCell
from .documents import NotebookFiles
from .files import FileBackend
from .files_routed import RoutedFiles, ServedDirectories
from .jupyter_server import JupyterServer, find_server
from .open_documents import OpenDocumentFiles, OpenDocuments
from .roots import Roots

__all__ = ["KernelServer", "Workplace"]


class KernelServer:
    """The Jupyter server that started a kernel, if one did.

    Args:
        environ: the kernel's environment.
        kernel_id: the server's id of the kernel; empty if it has none.

    Attributes:
        served: its files; ``None`` without a server, or one that cannot be asked.
    """

    def __init__(self, environ: Mapping[str, str], kernel_id: str) -> None:
        info = find_server(environ)
        server = None if info is None else JupyterServer(info)
        self.served = None if server is None else ServedDirectories(server)
        self._server = server
        self._kernel_id = kernel_id
        self._started_for = environ.get("JPY_SESSION_NAME", "")

    async def running_notebook(self) -> str:
        """The path of the notebook that runs in the kernel, absolute; empty if it is not known.

        The server is asked, because a notebook may be renamed while it runs; else it is the one
        that the kernel was started for.
        """
        if self._server is not None and self._kernel_id:
            try:
                answer = await self._server.request("GET", "sessions")
            except Refusal:
                pass
            else:
                found = _path_of(self._kernel_id, answer.body)
                if found:
                    return os.path.join(self._server.info.root, found)
        return self._started_for if os.path.isabs(self._started_for) else ""


def _path_of(kernel_id: str, sessions: Any) -> str:
    for session in sessions if type(sessions) is list else ():
        match session:
            case {"kernel": {"id": str(found)}, "path": str(path)} if found == kernel_id:
                return path
    return ""


class Workplace:
    """What one agent is given; see the module.

    Args:
        kernel: of a notebook's process.
        documents: what is open in the user's frontend; ``None`` while nothing can be asked.
        save_hooks: the server's hooks are to run for files on the disk.

    Attributes:
        roots: directories in which its sessions may work besides their own; absolute.
    """

    def __init__(
        self,
        kernel: KernelServer | None = None,
        documents: Callable[[], OpenDocuments | None] = lambda: None,
        *,
        save_hooks: bool = False,
    ) -> None:
        self._save_hooks = save_hooks
        self.kernel = kernel
        self._documents = documents
        self.roots: list[str] = []

    def files(
        self,
        roots: Roots,
        *,
        tell: Callable[[str], None],
        propose: Callable[[Sequence[ProposedCell]], object],
    ) -> FileBackend:
        """Where the files of a session are.

        Args:
            roots: the session's.
            tell: shows the user a line.
            propose: shows the user cells.
        """
        served = None if self.kernel is None else self.kernel.served
        routed = RoutedFiles(roots, served, tell, save_hooks=self._save_hooks)
        inner = OpenDocumentFiles(routed, self._documents)
        return NotebookFiles(inner, self._running, propose)

    async def _running(self) -> str:
        return "" if self.kernel is None else await self.kernel.running_notebook()
