"""``acp-jupyter replay``: a notebook executed headless, its agents replayed from its recording.

Exit codes: those of ``run``, of which 0, 1, 2, 3, 7, 130 and 143 can be; 3 also where the notebook
asks what was not recorded.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from ..errors import UsageError


def add(commands: Any) -> None:
    """Describe the command line, in argparse's collection of commands."""
    replay = commands.add_parser(
        "replay",
        help="execute a notebook with its recording in place of agents",
        description="Execute a notebook headless. What its agents said is taken from the "
        "recording beside it, NOTEBOOK.acp.jsonl: no agent is started. Exit code 3: a cell failed, "
        "as one does that asks what was not recorded.",
    )
    replay.add_argument("notebook", type=Path, metavar="NOTEBOOK")
    replay.add_argument("-o", "--output", type=Path, help="write the executed notebook there")
    replay.add_argument(
        "--from", dest="recording", type=Path, metavar="FILE", help="replay this recording"
    )
    replay.add_argument(
        "--speed", choices=["full", "original"], default="full", help="with the pauses of then?"
    )
    replay.add_argument(
        "--apply-files",
        action="store_true",
        help="write the files that the agent wrote, where the policy lets it unasked",
    )
    replay.add_argument("--timeout", type=float, metavar="S", help="seconds that one cell may take")
    replay.add_argument(
        "--cwd", type=Path, metavar="DIR", help="where it runs (default: the notebook's folder)"
    )
    replay.add_argument("--quiet", action="store_true", help="show no progress on standard error")
    replay.set_defaults(run=_replay)


def _replay(arguments: argparse.Namespace) -> int:
    from ..experiments.progress import Lines, Silent
    from ..experiments.run import run_notebook
    from ..host.recordings import OPTIONS_VARIABLE, REPLAY_VARIABLE, sidecar_of

    recording: Path = arguments.recording or sidecar_of(arguments.notebook)
    if not recording.is_file():
        raise UsageError(
            f"there is no recording {recording}",
            remedy="Record a run with `%acp record`, or name the file with --from.",
        )
    options = ["--speed", arguments.speed, *(["--apply-files"] if arguments.apply_files else [])]
    with tempfile.TemporaryDirectory(prefix="acp-jupyter-replay-") as folder:
        result = run_notebook(
            arguments.notebook,
            arguments.output or Path(folder, arguments.notebook.name),
            timeout=arguments.timeout,
            cwd=arguments.cwd,
            env={
                REPLAY_VARIABLE: str(recording.resolve()),
                OPTIONS_VARIABLE: " ".join(options),
                "ACP_JUPYTER_OUTPUT": "final",
            },
            progress=Silent() if arguments.quiet else Lines(sys.stderr),
        )
    if arguments.quiet and result.error:
        print(f"acp-jupyter: {result.error}", file=sys.stderr)
    return result.exit_code
