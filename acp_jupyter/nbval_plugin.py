"""The pytest plugin: makes ``pytest --nbval`` of notebooks with agents give the same each time.

It does nothing without ``--nbval`` or ``--nbval-lax``. With one of them, the kernels that are
started publish each entry once, finished (``ACP_JUPYTER_OUTPUT=final``). With ``--acp-replay``
besides, each notebook is replayed from the recording beside it, ``NOTEBOOK.acp.jsonl``: offline,
and without an agent. A notebook that has none fails, and says so.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import pytest

SANITIZER: Final = Path(__file__).with_name("nbval_sanitize.cfg")
ENTRY: Final = "application/vnd.acp.entry+json"
"""What JupyterLab gets beside each output; finished outputs are published without it."""

OUTPUT: Final = "ACP_JUPYTER_OUTPUT"
REPLAY: Final = "ACP_JUPYTER_REPLAY"
OPTIONS: Final = "ACP_JUPYTER_REPLAY_OPTIONS"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add our options."""
    group = parser.getgroup("acp-jupyter", "notebooks with agents, under --nbval")
    group.addoption(
        "--acp-replay",
        action="store_true",
        help="replay the agents of NOTEBOOK.ipynb from NOTEBOOK.acp.jsonl",
    )
    group.addoption(
        "--acp-apply-files",
        action="store_true",
        help="with --acp-replay: write the files that the agents wrote",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin, where notebooks are validated."""
    if config.getoption("nbval", False) or config.getoption("nbval_lax", False):
        config.pluginmanager.register(Notebooks(config), "acp-jupyter-notebooks")


class Notebooks:
    """Sets the environment of the kernels, as long as pytest runs."""

    def __init__(self, config: pytest.Config) -> None:
        self._replay = bool(config.getoption("acp_replay"))
        self._before = {name: os.environ.get(name) for name in (OUTPUT, REPLAY, OPTIONS)}
        os.environ[OUTPUT] = "final"
        if self._replay:
            os.environ[OPTIONS] = "--apply-files" if config.getoption("acp_apply_files") else ""
            if config.getoption("nbval_sanitize_with", None) is None:
                config.option.nbval_sanitize_with = str(SANITIZER)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Before the kernel of a notebook is started, which is done with its first cell."""
        notebook: Any = item.parent
        if not hasattr(notebook, "skip_compare") or item.path.suffix != ".ipynb":
            return
        if ENTRY not in notebook.skip_compare:
            notebook.skip_compare = (*notebook.skip_compare, ENTRY)
        if not self._replay:
            return
        recording = item.path.with_name(f"{item.path.stem}.acp.jsonl")
        if not recording.is_file():
            pytest.fail(
                f"{item.path.name} has no recording: there is no {recording.name} beside it. Run "
                f"the notebook once with ACP_JUPYTER_RECORD={recording.name}",
                pytrace=False,
            )
        os.environ[REPLAY] = str(recording)

    def pytest_unconfigure(self) -> None:
        """Leave the environment as it was."""
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
