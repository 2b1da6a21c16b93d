"""A registry and its archives on this machine, over HTTP, with every fault a server can have."""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from acp_jupyter.services.registry.choosing import this_platform


class RegistryServer:
    """Serves what a test puts there.

    Attributes:
        files: contents by path; a change counts from the next request on.
        announced: lengths that are told instead of the true ones, by path.
        moved: where a path leads.
        status: what is answered instead of 200, by path.
        requests: paths that were asked for, with ``If-None-Match``.
    """

    def __init__(self, port: int) -> None:
        self.files: dict[str, bytes] = {}
        self.announced: dict[str, int] = {}
        self.moved: dict[str, str] = {}
        self.status: dict[str, int] = {}
        self.requests: list[tuple[str, str]] = []
        self.base = f"http://127.0.0.1:{port}"
        self.address = f"{self.base}/registry.json"

    def put(self, *agents: Mapping[str, Any]) -> None:
        """Make these the registry."""
        document = {"version": "1.0.0", "agents": list(agents), "extensions": []}
        self.files["/registry.json"] = json.dumps(document).encode()

    def add(self, name: str, content: bytes) -> str:
        """Serve a file; returns its address."""
        self.files[f"/{name}"] = content
        return f"{self.base}/{name}"


@contextmanager
def registry_server() -> Iterator[RegistryServer]:
    """Run one."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.requests.append((self.path, self.headers.get("If-None-Match", "")))
            content = served.files.get(self.path, b"")
            etag = f'"{hashlib.sha256(content).hexdigest()}"'
            status = served.status.get(self.path, 200 if self.path in served.files else 404)
            if self.path in served.moved:
                self.send_response(302)
                self.send_header("Location", served.moved[self.path])
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            if status == 200 and self.headers.get("If-None-Match") == etag:
                self.send_response(304)
                self.end_headers()
                return
            self.send_response(status)
            self.send_header("ETag", etag)
            length = served.announced.get(self.path, len(content))
            self.send_header("Content-Length", str(length))
            self.end_headers()
            try:
                self.wfile.write(content)
            except ConnectionError:
                pass  # the client has read enough

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served = RegistryServer(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def entry(ident: str = "tester", **fields: Any) -> dict[str, Any]:
    """An agent of a registry, by npx unless ``distribution`` says otherwise."""
    return {
        "id": ident,
        "name": f"The {ident}",
        "version": "1.2.3",
        "description": "An agent for tests",
        "license": "MIT",
        "website": "https://example.org/agent",
        "distribution": {"npx": {"package": f"{ident}@1.2.3", "args": ["--acp"]}},
        **fields,
    }


def binary(url: str, content: bytes | None = None, cmd: str = "./agent", **fields: Any) -> Any:
    """A distribution for this platform; ``content`` is what its checksum is made of."""
    target = {"archive": url, "cmd": cmd, **fields}
    if content is not None:
        target["sha256"] = hashlib.sha256(content).hexdigest()
    return {"binary": {this_platform(): target}}


def demo_program(name: str = "demo agent") -> bytes:
    """A program that is the bundled agent."""
    root = Path(__file__).parents[1]
    return (
        f"#!{sys.executable}\n# {name}\nimport os, sys\n"
        f"os.environ['PYTHONPATH'] = {os.fspath(root)!r}\n"
        "os.execv(sys.executable, [sys.executable, '-P', '-m', 'acp_jupyter.demo_agent'])\n"
    ).encode()


def make_program(folder: Path, name: str, text: bytes | None = None) -> Path:
    """Put a program into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(demo_program(name) if text is None else text)
    path.chmod(0o755)
    return path


def make_tar(*members: tuple[tarfile.TarInfo, bytes], mode: str = "w:gz") -> bytes:
    """A tar archive of such members."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as archive:  # type: ignore[call-overload]
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return made.getvalue()


def tar_member(name: str, content: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    """A member of a tar archive, a file that may be run unless ``type`` says otherwise."""
    info = tarfile.TarInfo(name)
    info.mode = 0o755
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


def make_zip(*members: tuple[str, bytes, int]) -> bytes:
    """A zip archive of names, contents and modes."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, mode in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return made.getvalue()
