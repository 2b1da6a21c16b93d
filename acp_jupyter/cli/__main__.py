"""``python -m acp_jupyter.cli``: the command, where no script of it is on the PATH."""

import sys

from . import main

sys.exit(main())
