"""Agents that work in a copy of the folder, until what they changed is accepted or discarded."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import acp_jupyter as acp
from acp_jupyter.errors import Refusal, UsageError
from acp_jupyter.services.workspace.copies import add_worktree, no_programs
from acp_jupyter.services.workspace.isolated import Isolate, Isolated, isolate
from acp_jupyter.services.workspace.snapshot import take
from tests.live_kernel import LiveKernel, live_kernel


def git(folder: Path, *arguments: str) -> str:
    name = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    done = subprocess.run(
        ["git", *name, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository in which not all is committed."""
    made = tmp_path / "project"
    (made / "src").mkdir(parents=True)
    for path, text in (("src/a.py", "one\n"), ("b.txt", "b\n"), ("gone.txt", "g\n")):
        (made / path).write_text(text)
    git(made, "init", "-q")
    (made / ".gitignore").write_text("*.log\n")
    git(made, "add", ".")
    git(made, "commit", "-qm", "first")
    (made / "src" / "a.py").write_text("edited\n")
    (made / "gone.txt").unlink()
    (made / "untracked.txt").write_text("u\n")
    (made / "ignored.log").write_text("l\n")
    return made.resolve()


WAYS: list[Isolate] = ["copy", "worktree"]


@pytest.fixture(params=WAYS)
def made(folder: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Isolated]:
    copy = isolate(str(folder), request.param, base=str(tmp_path))
    yield copy
    copy.discard()


def names(folder: str) -> set[str]:
    found = {str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file()}
    return {name for name in found if name != ".git" and not name.startswith(".git/")}


def test_a_copy_is_as_the_folder_is_now_and_private(made: Isolated, folder: Path) -> None:
    expected = {"src/a.py", "b.txt", "untracked.txt", ".gitignore"}
    assert names(made.folder) == expected | ({"ignored.log"} if made.how == "copy" else set())
    assert Path(made.folder, "src", "a.py").read_text() == "edited\n"
    assert stat.S_IMODE(os.stat(made.place).st_mode) == 0o700
    assert not made.changes()
    if made.how == "worktree":
        assert git(Path(made.folder), "status", "--porcelain") == git(
            folder, "status", "--porcelain"
        )


def test_what_is_accepted_is_brought_over_and_nothing_else(made: Isolated, folder: Path) -> None:
    copy = Path(made.folder)
    (copy / "src" / "a.py").write_text("by the agent\n")
    (copy / "b.txt").unlink()
    (copy / "new").mkdir()
    (copy / "new" / "run.sh").write_text("#!/bin/sh\n")
    (copy / "new" / "run.sh").chmod(0o755)
    changes = {change.path: change for change in made.changes().files}
    kinds = {path: change.kind for path, change in changes.items()}
    assert kinds == {"b.txt": "deleted", "new/run.sh": "created", "src/a.py": "modified"}
    assert "-edited\n+by the agent\n" in changes["src/a.py"].diff
    assert (folder / "src" / "a.py").read_text() == "edited\n"
    made.accept(changes["src/a.py"])
    made.accept(changes["new/run.sh"])
    assert (folder / "src" / "a.py").read_text() == "by the agent\n"
    assert stat.S_IMODE((folder / "new" / "run.sh").stat().st_mode) == 0o755
    assert [change.path for change in made.changes().files] == ["b.txt"]
    assert (folder / "b.txt").exists()


def test_what_has_changed_in_both_is_left_alone(made: Isolated, folder: Path) -> None:
    for path in ("src/a.py", "b.txt", "new.txt", "same.txt"):
        Path(made.folder, path).write_text("agent\n")
        (folder / path).write_text("agent\n" if path == "same.txt" else "user\n")
    changes = {change.path: change for change in made.changes().files}
    for path in ("src/a.py", "b.txt", "new.txt"):
        with pytest.raises(Refusal, match="changed since"):
            made.accept(changes[path])
        assert (folder / path).read_text() == "user\n"
    made.accept(changes["same.txt"])
    assert sorted(change.path for change in made.changes().files) == [
        "b.txt",
        "new.txt",
        "src/a.py",
    ]


def test_f32_accepting_goes_through_no_link(made: Isolated, folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    Path(made.folder, "src", "new.py").write_text("agent\n")
    (change,) = made.changes().files
    (folder / "src" / "a.py").unlink()
    (folder / "src").rmdir()
    (folder / "src").symlink_to(outside)
    with pytest.raises(Refusal, match="link"):
        made.accept(change)
    assert list(outside.iterdir()) == []


def test_a_link_in_the_copy_is_accepted_as_a_link(made: Isolated, folder: Path) -> None:
    Path(made.folder, "link").symlink_to("/etc/passwd")
    (change,) = made.changes().files
    assert "root:" not in change.diff
    made.accept(change)
    assert os.readlink(folder / "link") == "/etc/passwd"


def test_discarding_leaves_nothing_behind(folder: Path, tmp_path: Path) -> None:
    for how in WAYS:
        copy = isolate(str(folder), how, base=str(tmp_path))
        Path(copy.folder, "new").write_text("x")
        copy.discard()
        copy.discard()
        assert not os.path.exists(copy.place)
    assert len(git(folder, "worktree", "list").splitlines()) == 1


def test_a_worktree_of_a_folder_below_the_top_works_there(folder: Path, tmp_path: Path) -> None:
    copy = isolate(str(folder / "src"), "worktree", base=str(tmp_path))
    assert copy.folder.endswith("/project/src")
    assert names(copy.folder) == {"a.py"}
    Path(copy.folder, "a.py").write_text("agent\n")
    (change,) = copy.changes().files
    copy.accept(change)
    assert (folder / "src" / "a.py").read_text() == "agent\n"
    copy.discard()
    assert len(git(folder, "worktree", "list").splitlines()) == 1


def test_f58_no_hook_and_no_filter_runs_for_a_worktree(folder: Path, tmp_path: Path) -> None:
    program, mark = tmp_path / "program", tmp_path / "ran"
    program.write_text(f"#!/bin/sh\ntouch '{mark}'\ncat\n")
    program.chmod(0o755)
    (folder / ".gitattributes").write_text("* filter=mine\n")
    for name in ("filter.mine.smudge", "filter.mine.clean", "core.fsmonitor"):
        git(folder, "config", name, str(program))
    for hook in ("post-checkout", "post-index-change"):
        (folder / ".git" / "hooks" / hook).write_bytes(program.read_bytes())
        (folder / ".git" / "hooks" / hook).chmod(0o755)
    copy = isolate(str(folder), "worktree", base=str(tmp_path))
    Path(copy.folder, "b.txt").write_text("x\n")
    assert copy.changes().count == 1
    copy.discard()
    assert not mark.exists()


def test_f58_a_filter_that_cannot_be_switched_off_lets_no_worktree_be_made(
    folder: Path, tmp_path: Path
) -> None:
    git(folder, "config", "filter.a=b.smudge", f"touch '{tmp_path / 'ran'}'; cat")
    (folder / ".gitattributes").write_text("* filter=a=b\n")
    with pytest.raises(UsageError, match="a filter whose name has a '='"):
        isolate(str(folder), "worktree", base=str(tmp_path))
    with pytest.raises(UsageError, match="a filter whose name has a '='"):
        add_worktree(folder, tmp_path / "place", "HEAD")
    assert not (tmp_path / "ran").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"project"}


def test_hooks_of_a_repositorys_configuration_are_switched_off(folder: Path) -> None:
    git(folder, "config", "hook.mine.command", "true")
    git(folder, "config", "hook.mine.event", "post-checkout")
    assert no_programs(folder) == ["-c", "hook.mine.enabled=false"]


@pytest.mark.parametrize("name", ["../link", "/t/link", "a/../../b"])
def test_f32_a_tampered_index_names_nothing_outside(
    folder: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "link").symlink_to("project")
    (tmp_path / "b").symlink_to("project")
    place = "x" * len(name)
    (folder / place).write_text("x\n")
    (folder / "a").mkdir()
    git(folder, "add", place)
    index = folder / ".git" / "index"
    data = index.read_bytes()[:-20].replace(place.encode(), name.encode())
    index.write_bytes(data + hashlib.sha1(data, usedforsecurity=False).digest())
    assert set(take(str(folder)).files) == names(str(folder)) - {"ignored.log"}
    copy = isolate(str(folder), "worktree", base=str(tmp_path))
    assert os.listdir(copy.place) == ["project"]
    assert not copy.changes()
    copy.discard()


def test_names_that_are_no_unicode_are_names(made: Isolated, folder: Path) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    Path(made.folder, name).write_text("agent\n")
    (change,) = made.changes().files
    assert '"b/caf\\351.txt"' in change.diff
    made.accept(change)
    assert (folder / name).read_text() == "agent\n"


def test_a_folder_without_a_commit_has_no_worktree(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    with pytest.raises(UsageError, match="no git repository with a commit"):
        isolate(str(tmp_path / "w"), "worktree", base=str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["w"]


def test_a_program_accepts_and_discards(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    with acp.connect("demo", cwd=folder, permissions="allow", isolate="copy") as agent:
        session = agent.new_session()
        turn = session.prompt("write made.txt: hi; write other.txt: ho")
        assert sorted(change.path for change in turn.changes) == ["made.txt", "other.txt"]
        assert sorted(change.path for change in agent.changes) == ["made.txt", "other.txt"]
        with pytest.raises(UsageError, match=r"nothing\.txt has not changed"):
            agent.accept("nothing.txt")
        assert agent.accept("made.txt") == {}
        assert (folder / "made.txt").read_text() == "hi"
        assert not (folder / "other.txt").exists()
    assert os.path.isdir(agent.cwd), "what was not accepted is kept"
    (folder / "other.txt").write_text("mine")
    assert agent.accept() == {"other.txt": "it has changed since"}
    agent.discard()
    assert not os.path.exists(agent.cwd)
    with acp.connect("demo", cwd=folder, permissions="allow", isolate="worktree") as agent:
        agent.new_session().prompt("hello")
    assert not os.path.exists(agent.cwd), "nothing was left in it"
    with pytest.raises(UsageError, match="no such way"):
        acp.connect("demo", cwd=folder, isolate="jail")


# -- in a notebook ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    with live_kernel(tmp_path_factory.mktemp("isolated")) as running:
        running.run("%acp permissions allow").expect_ok()
        yield running


def test_commands_show_accept_and_discard_what_is_in_the_copy(kernel: LiveKernel) -> None:
    connected = kernel.run("%acp connect demo --isolate copy").expect_ok()
    assert "It works in a copy" in connected.text
    kernel.run("write one.txt: 1; write two.txt: 2").expect_ok()
    assert not (kernel.cwd / "one.txt").exists()
    shown = kernel.run("%acp changes").expect_ok().text
    assert "Not accepted: 2 files" in shown
    assert "accepted: created one.txt" in kernel.run("%acp accept one.txt").expect_ok().text
    assert (kernel.cwd / "one.txt").read_text() == "1"
    (kernel.cwd / "two.txt").write_text("mine")
    refused = kernel.run("%acp accept").expect_ok().text
    assert "left alone: two.txt (it has changed since)" in refused
    kept = kernel.run("%acp disconnect").expect_ok().text
    assert "1 changed file in it was not accepted" in kept
    assert "was removed" in kernel.run("%acp discard").expect_ok().text
    assert "works in no copy" in kernel.run("%acp accept").expect_error("UsageError").text
    assert (
        "no such way" in kernel.run("%acp connect demo --isolate x").expect_error("UsageError").text
    )
