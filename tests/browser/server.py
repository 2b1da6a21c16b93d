"""Real Jupyter servers for tests: JupyterLab, Notebook 7, or the bare server, on loopback.

Each has a token, a port of its own, and directories of its own: nothing of the user's Jupyter
configuration, kernels, settings or workspaces is read or written. What would reach for the network
(news, update checks, the extension manager's index) is off.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.error import URLError
from urllib.request import Request, urlopen

import psutil

App = Literal["lab", "notebook", "server"]

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT = 60.0
STOP_GRACE = 5.0

MODULES: dict[App, str] = {
    "lab": "jupyterlab",
    "notebook": "notebook",
    "server": "jupyter_server",
}

CONFIG: dict[str, dict[str, Any]] = {
    "ServerApp": {"ip": "127.0.0.1", "port": 0, "open_browser": False, "allow_root": True},
    "ExtensionApp": {"open_browser": False},
    "LabApp": {
        "news_url": None,
        "check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
        "extension_manager": "readonly",
        "expose_app_in_browser": True,
    },
    "JupyterNotebookApp": {"expose_app_in_browser": True},
}

SETTINGS = {
    "@jupyterlab/apputils-extension/notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
    },
}
"""JupyterLab asks on first start whether it may fetch news; the question would cover the page."""


@dataclass(frozen=True)
class JupyterServer:
    """A running server.

    Attributes:
        app: which frontend it serves.
        url: its address with a slash at the end, e.g. ``http://127.0.0.1:40123/``.
        token: what requests to it must carry.
        root: the directory it serves.
        log: the file that holds what it printed.
    """

    app: App
    url: str
    token: str
    root: Path
    log: Path

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Call its REST API; returns the decoded answer, None where it has no body."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"token {self.token}", "Content-Type": "application/json"}
        request = Request(self.url + path, data, headers, method=method)
        with urlopen(request, timeout=30) as answer:
            content = answer.read()
        return json.loads(content) if content else None


def checkout_kernel_spec() -> dict[str, Any]:
    """The kernelspec "acp" of this checkout, run by this Python."""
    spec: dict[str, Any] = json.loads((ROOT / "kernelspec/acp/kernel.json").read_text("utf-8"))
    spec["argv"][0] = sys.executable
    return spec


@contextmanager
def jupyter_server(
    app: App,
    home: Path,
    kernels: Mapping[str, dict[str, Any]] | None = None,
    env: Mapping[str, str] | None = None,
    config: Mapping[str, dict[str, Any]] | None = None,
    token: str | None = None,
) -> Iterator[JupyterServer]:
    """Start a server and end it, with its kernels and whatever they had started.

    Args:
        app: which frontend.
        home: an empty directory for its configuration, logs and, under ``root``, its files.
        kernels: kernelspecs by name; by default "acp" of this checkout. "python3" is always there.
        env: variables added to its environment, and so to its kernels'.
        config: further settings, by class.
        token: of its own choice; may be empty. By default one is made.

    Raises:
        RuntimeError: it did not start within `START_TIMEOUT`; with the end of its log.
    """
    token = secrets.token_hex(16) if token is None else token
    environment = _environment(home, token) | dict(env or {})
    specs = {"acp": checkout_kernel_spec()} if kernels is None else kernels
    _write_files(home, specs, config or {})
    root, log = home / "root", home / "server.log"
    root.mkdir()
    command = [sys.executable, "-m", MODULES[app], f"--ServerApp.root_dir={root}"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        url = _wait_until_up(process, Path(environment["JUPYTER_RUNTIME_DIR"]), token, log)
        yield JupyterServer(app, url, token, root, log)
    finally:
        _end(process)


def _environment(home: Path, token: str) -> dict[str, str]:
    dropped = ("JUPYTER", "JPY_", "ACP_JUPYTER_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    python_path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return kept | {
        **({"JUPYTER_TOKEN": token} if token else {}),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTER_PATH": str(home / "share"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "IPYTHONDIR": str(home / "ipython"),
        "PYTHONPATH": python_path,  # the checkout, where it is not installed
        "ACP_DEMO_STORE": str(home / "sessions"),
    }


def _write_files(
    home: Path, kernels: Mapping[str, dict[str, Any]], config: Mapping[str, dict[str, Any]]
) -> None:
    merged = {name: CONFIG.get(name, {}) | config.get(name, {}) for name in {**CONFIG, **config}}
    files: dict[str, Any] = {"config/jupyter_server_config.json": merged}
    for name, settings in SETTINGS.items():
        files[f"settings/{name}.jupyterlab-settings"] = settings
    for name, spec in kernels.items():
        files[f"share/kernels/{name}/kernel.json"] = spec
    for path, content in files.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(json.dumps(content), encoding="utf-8")


def _wait_until_up(process: subprocess.Popen[bytes], runtime: Path, token: str, log: Path) -> str:
    """The server's address, from the file it writes, once its API answers."""
    deadline = time.monotonic() + START_TIMEOUT
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
        try:
            info = json.loads((runtime / f"jpserver-{process.pid}.json").read_text("utf-8"))
            url: str = info["url"]
            headers = {"Authorization": f"token {token}"}
            with urlopen(Request(url + "api/status", headers=headers), timeout=5):
                return url
        except (FileNotFoundError, json.JSONDecodeError, URLError, TimeoutError):
            continue  # not written yet, half written, or not listening yet
    tail = log.read_text("utf-8", errors="replace")[-3000:]
    raise RuntimeError(f"the server did not start (exit code {process.poll()}):\n{tail}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, which makes the server end its kernels; then SIGKILL for all that is left."""
    try:
        family = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        family = []
    process.terminate()
    try:
        process.wait(STOP_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for survivor in psutil.wait_procs(family, timeout=STOP_GRACE)[1]:
        try:
            survivor.kill()
        except psutil.NoSuchProcess:
            pass
