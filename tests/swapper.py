"""A name that is a directory at one moment and a link at the next (F32); Linux only."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager

SWAPPER = """
import ctypes, os, sys
directory, link = (os.fsencode(path) for path in sys.argv[1:])
renameat2, here, exchange = ctypes.CDLL(None).renameat2, -100, 2
print("ready", flush=True)
while os.getppid() == int(os.environ["PARENT"]):
    assert renameat2(here, directory, here, link, exchange) == 0
"""
"""Makes a name a directory at one moment and a link at the next, with nothing between."""


@contextmanager
def swapping(directory, link):
    command = [sys.executable, "-c", SWAPPER, directory, link]
    env = {**os.environ, "PARENT": str(os.getpid())}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as swapper:
        try:
            assert swapper.stdout
            assert swapper.stdout.readline() == b"ready\n"
            yield
            assert swapper.poll() is None
        finally:
            swapper.kill()
