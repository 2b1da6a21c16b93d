"""``python -m acp_jupyter.replay_agent``."""

from __future__ import annotations

import os
import sys

from . import main

if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # Not sys.exit: a thread may still read standard input, and the interpreter aborts over that.
    os._exit(code)
