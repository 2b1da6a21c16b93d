"""The other end of `host.private_sockets`: a program of the same user connects to a kernel."""

from __future__ import annotations

import os
import socket

from ..errors import UsageError


def connect(path: str, remedy: str) -> socket.socket:
    """Connect to a kernel's socket.

    Args:
        path: of the socket.
        remedy: what to do where no kernel answers.

    Raises:
        UsageError: none does, or the directory is somebody else's.
    """
    try:
        if os.stat(os.path.dirname(path)).st_uid != os.geteuid():
            raise UsageError(f"{path} belongs to somebody else")
        peer = socket.socket(socket.AF_UNIX)
        peer.connect(path)
    except OSError as error:
        raise UsageError(f"no kernel answers at {path}: {error.strerror}", remedy=remedy) from error
    return peer
