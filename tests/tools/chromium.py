"""Finds the Chromium that the browser tests drive, and installs it where that is allowed.

``find()`` looks at the environment variable ``CHROMIUM``, then for the usual names on the PATH.
Run as a program it prints the browser's path. Where there is none it installs Debian's package,
if it may (apt-get, as root or with sudo that asks no password); else it says how to get one and
exits with 1. It needs nothing but the standard library.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Where macOS keeps applications, which are never on the PATH.
APPLICATIONS = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
# A package download that hangs must not hang the test run: seconds for one apt-get command.
APT_LIMIT = 600
REMEDY = """\
The browser tests need Chromium or Chrome. Install one:
  Debian, Ubuntu:  sudo apt-get install chromium
  Fedora:          sudo dnf install chromium
  macOS:           brew install --cask chromium
or name one that is elsewhere:  make test CHROMIUM=/path/to/chromium
or leave the browser tests out: .venv/bin/python -m pytest -m 'not browser'"""


class NoBrowser(Exception):
    """There is no browser to drive; the text says why."""


def find() -> str | None:
    """Returns the absolute path of the browser, or ``None``.

    Raises:
        NoBrowser: ``CHROMIUM`` is set and names nothing that can be run. It is not passed over,
            because the tests would then run on another browser than the one asked for.
    """
    wanted = os.environ.get("CHROMIUM")
    if wanted:
        path = shutil.which(wanted)
        if path is None:
            raise NoBrowser(f"CHROMIUM={wanted} cannot be run")
        return os.path.abspath(path)
    for name in (*NAMES, *APPLICATIONS):
        path = shutil.which(name)
        if path is not None:
            return path
    return None


def privilege() -> list[str] | None:
    """Returns what has to stand before apt-get, or ``None`` where we may not install."""
    if shutil.which("apt-get") is None:
        return None
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") is None:
        return None
    asked = subprocess.run(
        ["sudo", "-n", "true"], stdin=subprocess.DEVNULL, capture_output=True, timeout=30
    )
    return ["sudo", "-n"] if asked.returncode == 0 else None


def install(before: list[str]) -> None:
    """Installs Debian's Chromium, quietly unless it fails.

    Raises:
        NoBrowser: apt-get failed, or took longer than `APT_LIMIT`.
    """
    environment = [*before, "env", "DEBIAN_FRONTEND=noninteractive"]
    for arguments in (
        ["update", "-q"],
        ["install", "-q", "-y", "--no-install-recommends", "chromium"],
    ):
        command = [*environment, "apt-get", *arguments]
        print("Installing the test browser:", "apt-get", *arguments, file=sys.stderr, flush=True)
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=APT_LIMIT,
            )
        except subprocess.TimeoutExpired as late:
            raise NoBrowser(f"apt-get {arguments[0]} took longer than {APT_LIMIT} s") from late
        # An update fails for one dead source of many; whether that matters the install shows.
        if done.returncode != 0 and arguments[0] == "install":
            raise NoBrowser(f"apt-get install failed ({done.returncode}):\n{done.stdout}")


def main() -> int:
    """Prints the browser's path.

    Returns:
        0, or 1 with an explanation on standard error.
    """
    try:
        path = find()
        if path is None:
            before = privilege()
            if before is None:
                raise NoBrowser("no Chromium on the PATH, and no right to install one here")
            install(before)
            path = find()
            if path is None:
                raise NoBrowser("apt-get installed Chromium, but it is not on the PATH")
    except NoBrowser as reason:
        print(f"{reason}\n\n{REMEDY}", file=sys.stderr)
        return 1
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
