"""jupyter-collaboration for the tests that need it, in a folder of its own.

Installed beside the rest it would change JupyterLab for all other tests. It goes into
``collaboration`` in the environment that runs the tests; what is installed there already is left
as it is.
"""

from __future__ import annotations

import fcntl
import importlib.metadata
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

REQUIREMENT = "jupyter-collaboration>=4.0"
INSTALL_LIMIT = 300.0


def install() -> Path:
    """The folder; filled once, whoever comes first.

    Raises:
        RuntimeError: pip could not; with what it said.
    """
    prefix = Path(sys.prefix) / "collaboration"
    prefix.mkdir(exist_ok=True)
    done = prefix / "installed"
    with (prefix / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            _install(prefix)
            done.touch()
    return prefix


def _install(prefix: Path) -> None:
    kept = prefix / "constraints.txt"
    installed = {
        distribution.metadata["Name"]: distribution.version
        for distribution in importlib.metadata.distributions()
    }
    # With its own version pip would build this project anew, and others that are not published.
    installed.pop("acp-jupyter", None)
    kept.write_text("".join(f"{name}=={version}\n" for name, version in sorted(installed.items())))
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]
    command += ["-q", "--prefix", str(prefix), "--constraint", str(kept), REQUIREMENT]
    run = subprocess.run(
        command,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=INSTALL_LIMIT,
        check=False,
    )
    if run.returncode != 0:
        raise RuntimeError(f"{REQUIREMENT} could not be installed into {prefix}:\n{run.stderr}")


def environment(prefix: Path) -> dict[str, str]:
    """The variables that let a Jupyter server find it, besides what they hold already."""
    scheme = sysconfig.get_preferred_scheme("prefix")
    paths = {"base": str(prefix), "platbase": str(prefix)}
    packages = {sysconfig.get_path(kind, scheme, paths) for kind in ("purelib", "platlib")}
    return {
        "PYTHONPATH": os.pathsep.join(sorted(packages)),
        "JUPYTER_PATH": str(prefix / "share/jupyter"),
        "JUPYTER_CONFIG_PATH": str(prefix / "etc/jupyter"),
    }
