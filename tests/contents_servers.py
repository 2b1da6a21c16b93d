"""Jupyter servers for the tests of files: on a disk, in memory, without a token."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import nbformat
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from acp_jupyter.services.jupyter_server import ServerInfo
from tests.bench.behind_server import ServedKernel
from tests.browser.server import JupyterServer, jupyter_server

Kind = Literal["disk", "memory", "open"]

MEMORY = {"ServerApp": {"contents_manager_class": "tests.memory_contents.MemoryContents"}}
ON_DISK = {
    "ServerApp": {"base_url": "/a/base/"},
    "FileContentsManager": {"post_save_hook": "tests.memory_contents.note_save"},
}
OPEN = {"IdentityProvider": {"token": ""}, "PasswordIdentityProvider": {"hashed_password": ""}}

CELL_LIMIT = 60.0


@contextmanager
def contents_server(kind: Kind, home: Path) -> Iterator[JupyterServer]:
    """A bare server: ``disk`` has a base URL, a token and a hook, ``open`` has none."""
    config = {"disk": ON_DISK, "memory": MEMORY, "open": OPEN}[kind]
    token = "" if kind == "open" else None
    with jupyter_server("server", home, config=config, token=token) as server:
        yield server


def info_of(server: JupyterServer) -> ServerInfo:
    """What a kernel of the server finds."""
    return ServerInfo(server.url, str(server.root.resolve()), server.token)


class PatientKernel(ServedKernel):
    """One that may be silent for long: the machine may be busy."""

    async def _read(self, seconds: float = CELL_LIMIT) -> dict[str, Any]:
        return await super()._read(max(seconds, CELL_LIMIT))


@dataclass
class Ran:
    """What cells have shown.

    Attributes:
        texts: of each cell, its outputs in their last state as text.
        bundles: all that was published.
    """

    texts: list[str] = field(default_factory=list)
    bundles: list[Any] = field(default_factory=list)


def run_notebook(
    server: JupyterServer,
    path: str,
    cells: Sequence[str],
    before: Callable[[str], None] = lambda _kernel_id: None,
) -> Ran:
    """Run cells in an agent kernel that the server starts for a new notebook.

    Args:
        server: which.
        path: of the notebook, which is made.
        cells: their sources.
        before: called with the kernel's id when it is ready.
    """
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("%acp", id="first")])
    server.request("PUT", f"api/contents/{path}", {"type": "notebook", "content": notebook})
    body = {"path": path, "name": path, "type": "notebook", "kernel": {"name": "acp"}}
    session = server.request("POST", "api/sessions", body)
    try:
        return asyncio.run(_run(server, session["kernel"]["id"], cells, before))
    finally:
        server.request("DELETE", f"api/sessions/{session['id']}")


async def _run(
    server: JupyterServer, kernel_id: str, cells: Sequence[str], before: Callable[[str], None]
) -> Ran:
    url = server.url.replace("http", "ws", 1) + f"api/kernels/{kernel_id}/channels"
    headers = {"Authorization": f"token {server.token}"}
    socket = await websocket_connect(HTTPRequest(url, headers=headers))
    ran = Ran()
    try:
        kernel = PatientKernel(socket)
        await kernel.wait_ready()
        before(kernel_id)
        for cell in cells:
            published, idle, _ = await kernel.run(cell)
            assert idle
            ran.bundles += [message.content for message in published]
            ran.texts.append(_text(published))
    finally:
        socket.close()
        async with asyncio.timeout(30):  # without the server's answer the connection stays open
            while await socket.read_message() is not None:
                pass
    return ran


def _text(published: Sequence[Any]) -> str:
    shown: dict[str, str] = {}
    for message in published:
        content = message.content
        ident = content.get("transient", {}).get("display_id") or uuid4().hex
        if message.kind in ("display_data", "update_display_data"):
            shown[ident] = content["data"].get("text/plain", "")
        elif message.kind in ("stream", "error"):
            shown[ident] = content.get("text") or json.dumps(content)
    return "\n".join(shown.values())
