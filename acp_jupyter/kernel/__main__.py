"""Start the kernel: ``python -m acp_jupyter.kernel -f CONNECTION_FILE``."""

from __future__ import annotations

import sys
from pathlib import Path

from ipykernel.kernelapp import IPKernelApp
from jupyter_core.paths import jupyter_data_dir
from traitlets.config import Config

from .kernel import ACPKernel


def main() -> None:
    """Run the kernel until it is shut down."""
    config = Config()
    config.IPKernelApp.kernel_class = ACPKernel
    # Prompts are no Python: they must not end up in the history that Python kernels share.
    config.HistoryManager.hist_file = str(_history_file())
    IPKernelApp.launch_instance(sys.argv[1:], config=config)


def _history_file() -> Path:
    folder = Path(jupyter_data_dir(), "acp-jupyter")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "history.sqlite"


if __name__ == "__main__":
    main()
