"""Agents of the registry as the real npx and uvx run them, from packages on this machine.

The working directory is that of somebody who wants another program to run in their place.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from acp_jupyter.host.installing import search_path
from acp_jupyter.services.registry import choosing
from acp_jupyter.services.registry.model import parse_agent
from tests.registry_server import (
    RegistryServer,
    entry,
    make_program,
    make_tar,
    make_zip,
    registry_server,
    tar_member,
)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="programs are scripts")

which = choosing.find_program(search_path(os.environ.get("PATH", os.defpath)))

NAME = "acp-jupyter-tester"
ROOT = os.fspath(Path(__file__).parents[1])
ANSWER_LIMIT = 120
"""Seconds for a runner's first start, which makes an environment."""

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": 1, "clientCapabilities": {}},
}


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with settings and packages that would have another program run."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    folder = tmp_path / "workspace"
    evil = b"#!/bin/sh\necho evil\n"
    make_program(folder / "node_modules" / ".bin", NAME, evil)
    make_program(folder / "node_modules" / NAME, "agent.js", evil)
    package = {"name": NAME, "version": "1.2.3", "bin": {NAME: "agent.js"}}
    (folder / "node_modules" / NAME / "package.json").write_text(json.dumps(package))
    (folder / "package.json").write_text(json.dumps({"dependencies": {NAME: "1.2.3"}}))
    (folder / ".npmrc").write_text("registry=http://127.0.0.1:9/\n")
    (folder / "uv.toml").write_text('index-url = "http://127.0.0.1:9/"\nno-such-setting = 1\n')
    return folder


@contextmanager
def running(argv: Sequence[str], cwd: Path, env: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Start an agent, and initialize it; its answer."""
    own = ("JUPYTER", "NPM_CONFIG_", "UV_")
    environ = {name: text for name, text in os.environ.items() if not name.upper().startswith(own)}
    with subprocess.Popen(
        argv, cwd=cwd, env=environ | env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
            process.stdin.flush()
            assert select.select([process.stdout], [], [], ANSWER_LIMIT)[0], "no answer"
            line = process.stdout.readline()
            yield json.loads(line)
            process.stdin.close()
            process.wait(30)
        finally:
            process.kill()


def launch(runner: str, package: str) -> choosing.Launch:
    target = {runner: {"package": package}}
    return choosing.plan_launch(parse_agent(entry(distribution=target)), "none", which)


def wheel() -> bytes:
    """A package of PyPI that is the bundled agent."""
    info = f"{NAME.replace('-', '_')}-1.2.3.dist-info"
    program = (
        "import os, sys\n\n\ndef main():\n"
        f"    os.environ['PYTHONPATH'] = {ROOT!r}\n"
        f"    python = {sys.executable!r}\n"
        "    os.execv(python, [python, '-P', '-m', 'acp_jupyter.demo_agent'])\n"
    )
    files = {
        "acp_jupyter_tester.py": program,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1.2.3\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{NAME} = acp_jupyter_tester:main\n",
    }
    rows = []
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        rows.append(f"{name},sha256={digest.decode()},{len(text.encode())}")
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,"]) + "\n"
    return make_zip(*((name, text.encode(), 0o100644) for name, text in files.items()))


@pytest.mark.skipif(which("uvx") is None, reason="uvx is not installed; it comes with uv")
def test_uvx_runs_the_package_and_nothing_of_the_working_directory(
    workspace: Path, tmp_path: Path
) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    (wheels / "acp_jupyter_tester-1.2.3-py3-none-any.whl").write_bytes(wheel())
    env = {
        "UV_FIND_LINKS": str(wheels),
        "UV_NO_INDEX": "1",
        "UV_OFFLINE": "1",
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        "UV_PYTHON": sys.executable,
    }
    argv = launch("uvx", f"{NAME}==1.2.3").argv
    with running(argv, workspace, env) as answer:
        assert answer["result"]["protocolVersion"] == 1


def npm_package(server: RegistryServer) -> None:
    """Have a server be npm's registry, with a package that is the bundled agent."""
    program = (
        "#!/usr/bin/env node\n"
        "const { spawnSync } = require('child_process');\n"
        f"const env = {{ ...process.env, PYTHONPATH: {json.dumps(ROOT)} }};\n"
        f"const python = {json.dumps(sys.executable)};\n"
        "const argv = ['-P', '-m', 'acp_jupyter.demo_agent'];\n"
        "process.exit(spawnSync(python, argv, { env, stdio: 'inherit' }).status);\n"
    )
    package = {"name": NAME, "version": "1.2.3", "bin": {NAME: "agent.js"}}
    packed = make_tar(
        tar_member("package/package.json", json.dumps(package).encode()),
        tar_member("package/agent.js", program.encode()),
    )
    digest = base64.b64encode(hashlib.sha512(packed).digest()).decode()
    where = server.add(f"{NAME}-1.2.3.tgz", packed)
    version = package | {"dist": {"tarball": where, "integrity": f"sha512-{digest}"}}
    document = {"name": NAME, "dist-tags": {"latest": "1.2.3"}, "versions": {"1.2.3": version}}
    server.add(NAME, json.dumps(document).encode())


@pytest.mark.skipif(which("npx") is None, reason="npx is not installed; it comes with Node.js")
@pytest.mark.parametrize("package", [NAME, f"{NAME}@1.2.3"])
def test_npx_runs_the_package_and_nothing_of_the_working_directory(
    workspace: Path, tmp_path: Path, package: str
) -> None:
    with registry_server() as server:
        npm_package(server)
        (tmp_path / "npmrc").write_text(f"registry={server.base}/\n")  # the workspace's goes before
        env = {
            "npm_config_cache": str(tmp_path / "cache"),
            "npm_config_userconfig": str(tmp_path / "npmrc"),
            "HOME": str(tmp_path),
        }
        choosing.make_npx_folder()
        with running(launch("npx", package).argv, workspace, env) as answer:
            assert answer["result"]["protocolVersion"] == 1
        assert any(path.endswith(".tgz") for path, _ in server.requests)
