"""``acp-jupyter install``: the kernelspec, for a user or below a prefix."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .files import KERNEL, shipped


def add(commands: Any) -> None:
    """Describe the command line, in argparse's collection of commands."""
    install = commands.add_parser("install", help='install the kernelspec "ACP Agent"')
    where = install.add_mutually_exclusive_group()
    where.add_argument("--user", action="store_true", help="for this user (the default)")
    where.add_argument("--sys-prefix", action="store_true", help="into this Python's environment")
    where.add_argument("--prefix", help="into PREFIX/share/jupyter/kernels")
    install.set_defaults(run=_install)


def _install(arguments: argparse.Namespace) -> int:
    from jupyter_client.kernelspec import KernelSpecManager

    prefix = sys.prefix if arguments.sys_prefix else arguments.prefix
    source = shipped("kernelspec") / KERNEL
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, KERNEL)
        shutil.copytree(source, made)
        spec_file = made / "kernel.json"
        spec = json.loads(spec_file.read_text())
        # Whoever starts this kernel later may have another Python first on the PATH.
        spec["argv"][0] = sys.executable
        spec_file.write_text(json.dumps(spec, indent=1))
        try:
            target = KernelSpecManager().install_kernel_spec(
                str(made), KERNEL, user=prefix is None, prefix=prefix
            )
        except OSError as error:
            raise UsageError(
                f"the kernelspec cannot be written: {error}",
                remedy="Choose a place of yours, with --user or --prefix.",
            ) from error
    print(f"Installed the kernelspec {KERNEL!r} in {target}")
    return 0
