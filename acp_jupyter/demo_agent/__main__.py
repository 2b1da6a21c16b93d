"""``python -m acp_jupyter.demo_agent``."""

from __future__ import annotations

import sys

from acp_jupyter.demo_agent import main

if __name__ == "__main__":
    sys.exit(main())
