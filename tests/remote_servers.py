"""Starts `remote_peer`, and asks it what it was sent."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import trustme

ROOT = Path(__file__).parents[1]


@dataclass
class Peer:
    """A server that runs."""

    port: int
    authority: Path | None

    def url(self, kind: str) -> str:
        """Its address for "websocket" or "http"."""
        secure = "s" if self.authority else ""
        return f"{'ws' if kind == 'websocket' else 'http'}{secure}://localhost:{self.port}/acp"

    def seen(self) -> list[dict[str, Any]]:
        """The requests so far, oldest first."""
        return self._control("seen")

    def drop(self) -> None:
        """Cut all connections."""
        self._control("drop")

    def _control(self, what: str) -> Any:
        context = ssl.create_default_context(cafile=self.authority) if self.authority else None
        address = f"http{'s' if context else ''}://localhost:{self.port}/{what}"
        with urlopen(address, timeout=30, context=context) as answer:
            return json.loads(answer.read())


def make_certificate(directory: Path) -> tuple[Path, Path]:
    """Files with the authority's certificate, and with the server's key and certificate."""
    authority = trustme.CA()
    ours, server = directory / "authority.pem", directory / "server.pem"
    authority.cert_pem.write_to_path(str(ours))
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(server))
    return ours, server


@contextmanager
def open_peer(directory: Path, *options: str, tls: bool = False) -> Iterator[Peer]:
    """Run the server; sessions of its agents are kept below ``directory``."""
    authority = None
    words = [sys.executable, "-m", "tests.remote_peer", *options]
    if tls:
        authority, certificate = make_certificate(directory)
        words += ["--certificate", str(certificate)]
    environment = {**os.environ, "ACP_DEMO_STORE": str(directory / "sessions")}
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=environment
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Peer(int(process.stdout.readline()), authority)
    finally:
        process.stdin.close()
        process.stdout.close()
        try:
            process.wait(15)
        finally:
            process.kill()
