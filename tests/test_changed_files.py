"""Files that change while a turn runs: found out, as patches, shown, undone, recorded, replayed."""

from __future__ import annotations

import os
import pickle
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import acp_jupyter as acp
from acp_jupyter.client.changed import TurnChanges
from acp_jupyter.errors import Refusal, TurnCancelled
from acp_jupyter.protocol import recording
from acp_jupyter.rendering import changes as rendering
from acp_jupyter.services.workspace import patch, snapshot, watch
from acp_jupyter.services.workspace.contents import Contents
from acp_jupyter.services.workspace.index import read_index
from acp_jupyter.services.workspace.watch import Watch
from acp_jupyter.session.changes import Changes, FileChange, from_data, to_data
from tests.live_kernel import LiveKernel, live_kernel


def git(folder: Path, *arguments: str) -> str:
    name = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "core.autocrlf=false"]
    done = subprocess.run(
        ["git", *name, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


FILES = {
    "src/a.py": b"one\ntwo\nthree\n",
    "b.txt": b"b\n",
    "picture.png": b"\x89PNG\0\xff\xfe",
    "crlf.txt": b"one\r\ntwo\r\n",
    "a name.txt": b"blank",
    'quote"d.txt': b"q\n",
    "übung.txt": b"u\n",
}


@pytest.fixture(params=["folder", "git"])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Some files, in a git worktree or not."""
    made = tmp_path / "w"
    for path, data in FILES.items():
        place = made / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    if request.param == "git":
        git(made, "init", "-q")
        git(made, "add", ".")
        git(made, "commit", "-qm", "first")
    return made.resolve()


def held(folder: Path) -> dict[str, tuple[int, bytes]]:
    """All that is in a folder, but for the repository."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir() or name.startswith(".git/"):
            continue
        data = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
        found[name] = (stat.S_IMODE(os.lstat(path).st_mode) & 0o700, data)
    return found


def change_much(folder: Path) -> None:
    """Something of all that can happen to a file."""
    (folder / "src" / "a.py").write_bytes(b"one\n2\nthree")
    (folder / "b.txt").unlink()
    (folder / "picture.png").write_bytes(b"\x89PNG\0\xff\xfd!")
    (folder / "crlf.txt").write_bytes(b"one\r\n2\r\n")
    (folder / "a name.txt").chmod(0o755)
    (folder / 'quote"d.txt').write_bytes(b"Q\n")
    (folder / "übung.txt").unlink()
    (folder / "übung.txt").symlink_to("b.txt")
    (folder / "new").mkdir()
    (folder / "new" / "empty").write_bytes(b"")
    (folder / "new" / "tab\tand\\.txt").write_bytes(b"x\ny")


# -- what has changed -------------------------------------------------------------------------


def test_all_that_can_happen_to_a_file_is_told_and_undone(folder: Path) -> None:
    before = held(folder)
    watching = Watch()
    seen = watching.begin([str(folder)])
    change_much(folder)
    found = watching.end(seen)
    assert {change.path: change.kind for change in found.files} == {
        "a name.txt": "mode",
        "b.txt": "deleted",
        "crlf.txt": "modified",
        "new/empty": "created",
        "new/tab\tand\\.txt": "created",
        "picture.png": "modified",
        'quote"d.txt': "modified",
        "src/a.py": "modified",
        "übung.txt": "modified",
    }
    assert found.notes == ()
    assert not any(change.note for change in found.files)
    mode = next(change for change in found.files if change.kind == "mode")
    assert (mode.old_mode, mode.new_mode) == (0o644, 0o755)
    assert all(watching.restore(change) for change in found.files)
    assert held(folder) == before
    assert not any(watching.restore(change) for change in found.files)
    assert watching.end(seen).count == 0


def test_the_patch_applies_with_git_and_backwards(folder: Path, tmp_path: Path) -> None:
    before = held(folder)
    watching = Watch()
    seen = watching.begin([str(folder)])
    change_much(folder)
    text = watching.end(seen).patch()
    after = held(folder)
    (tmp_path / "p.patch").write_bytes(text.encode())
    if not (folder / ".git").exists():
        git(folder, "init", "-q")
    git(folder, "apply", "-R", str(tmp_path / "p.patch"))
    assert held(folder) == before
    git(folder, "apply", str(tmp_path / "p.patch"))
    assert held(folder) == after


NAMES = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=8
).filter(lambda name: name not in (".", "..", ".git") and len(name.encode()) < 200)
CONTENTS = st.one_of(
    st.none(),
    st.binary(max_size=200),
    st.lists(st.sampled_from(["a", "b", "c\r", "", "ü"]), max_size=30)
    .map("\n".join)
    .map(str.encode),
)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.dictionaries(NAMES, st.tuples(CONTENTS, CONTENTS, st.booleans()), max_size=3))
def test_any_patch_leads_from_one_version_to_the_other(
    tmp_path_factory: pytest.TempPathFactory,
    files: dict[str, tuple[bytes | None, bytes | None, bool]],
) -> None:
    place = tmp_path_factory.mktemp("patch")
    git(place, "init", "-q")
    text, expected = "", {}
    for name, (old, new, executable) in files.items():
        sides = []
        for data, mode in ((old, 0o100644), (new, 0o100755 if executable else 0o100644)):
            sides.append(None if data is None else patch.Side(mode, data))
        text += patch.make(name, *sides).text
        if old is not None:
            (place / name).write_bytes(old)
            (place / name).chmod(0o644)
        if new is not None:
            expected[name] = (0o700 if executable else 0o600, new)
    if text:
        (place.parent / f"{place.name}.patch").write_bytes(text.encode())
        git(place, "apply", f"../{place.name}.patch")
    assert held(place) == expected


def test_what_git_ignores_does_not_count_and_what_is_tracked_does(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text("build/\n*.log\n")
    (tmp_path / "kept.log").write_text("old\n")
    git(tmp_path, "add", "-f", ".")
    git(tmp_path, "commit", "-qm", "first")
    watching = Watch()
    seen = watching.begin([str(tmp_path)])
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "out.txt").write_text("x")
    (tmp_path / "new.log").write_text("x")
    (tmp_path / "kept.log").write_text("new\n")
    (tmp_path / "made.txt").write_text("x")
    assert [change.path for change in watching.end(seen).files] == ["kept.log", "made.txt"]


def test_a_commit_by_the_agent_hides_nothing(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "a.txt").write_text("one\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    watching = Watch()
    seen = watching.begin([str(tmp_path)])
    (tmp_path / "a.txt").write_text("two\n")
    git(tmp_path, "commit", "-qam", "second")
    (change,) = watching.end(seen).files
    assert "-one\n+two\n" in change.diff


def test_the_repositorys_index_and_references_are_left_as_they_are(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "a.txt").write_text("one\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    (tmp_path / "a.txt").write_text("two\n")

    def administration() -> dict[str, tuple[int, bytes]]:
        places = [path for path in sorted((tmp_path / ".git").rglob("*")) if path.is_file()]
        return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in places}

    before = administration()
    watching = Watch()
    seen = watching.begin([str(tmp_path)])
    (tmp_path / "a.txt").write_text("three\n")
    assert watching.end(seen).count == 1
    assert administration() == before


def test_f58_no_program_that_a_repository_names_is_run(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "a.txt").write_text("one\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    program = tmp_path.parent / f"{tmp_path.name}.sh"
    mark = program.with_suffix(".ran")
    program.write_text(f"#!/bin/sh\ntouch '{mark}'\ncat\n")
    program.chmod(0o755)
    (tmp_path / ".gitattributes").write_text("* filter=mine diff=mine\n")
    for name in ("filter.mine.clean", "filter.mine.smudge", "diff.mine.textconv", "diff.external"):
        git(tmp_path, "config", name, str(program))
    for name in ("core.fsmonitor", "core.sshCommand", "core.pager", "core.editor"):
        git(tmp_path, "config", name, str(program))
    for hook in ("post-index-change", "post-checkout", "pre-auto-gc"):
        (tmp_path / ".git" / "hooks" / hook).write_bytes(program.read_bytes())
        (tmp_path / ".git" / "hooks" / hook).chmod(0o755)
    os.utime(tmp_path / "a.txt")
    mark.unlink(missing_ok=True)
    watching = Watch()
    seen = watching.begin([str(tmp_path)])
    (tmp_path / "a.txt").write_text("two\n")
    (change,) = watching.end(seen).files
    assert change.kind == "modified"
    assert watching.restore(change)
    assert (tmp_path / "a.txt").read_text() == "one\n"
    assert not mark.exists()


@pytest.mark.parametrize("version", ["2", "4"])
def test_an_index_of_any_version_is_read(tmp_path: Path, version: str) -> None:
    git(tmp_path, "init", "-q")
    names = [f"{folder}/{name * 40}" for folder in ("a", "ab", "b") for name in ("x", "xy", "ü")]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    git(tmp_path, "add", ".")
    git(tmp_path, "update-index", f"--index-version={version}")
    future = time.time() + 100  # later than all files, as it is a moment after they were written
    os.utime(tmp_path / ".git" / "index", (future, future))
    index = read_index(str(tmp_path / ".git" / "index"), prefix="a/")
    assert index is not None
    assert sorted(index.entries) == sorted(n[2:] for n in names if n.startswith("a/"))
    for name in index.entries:
        blob = git(tmp_path, "rev-parse", f":a/{name}").strip()
        assert index.known(name, os.lstat(tmp_path / "a" / name)).hex() == blob
        os.utime(tmp_path / "a" / name, (5, 5))
        assert index.known(name, os.lstat(tmp_path / "a" / name)) == b""


@pytest.mark.parametrize("cut", [0, 3, 11, 40, 90, 200])
def test_a_damaged_index_is_not_read(tmp_path: Path, cut: int) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    git(tmp_path, "add", ".")
    place = tmp_path / ".git" / "index"
    data = place.read_bytes()
    place.write_bytes(data[:cut] if cut < len(data) else data[:8] + b"\xff" * 4 + data[12:])
    assert read_index(str(place)) is None
    watching = Watch()
    seen = watching.begin([str(tmp_path)])
    (tmp_path / "a").write_text("changed")
    assert [change.path for change in watching.end(seen).files] == ["a"]


def test_what_a_filter_changes_is_not_taken_from_the_repository(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "config", "filter.case.clean", "tr a-z A-Z")
    (tmp_path / ".gitattributes").write_text("*.txt filter=case\n")
    (tmp_path / "a.txt").write_text("small\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    os.utime(tmp_path / ".git" / "index", (time.time() + 100,) * 2)
    watching = Watch()
    seen = watching.begin([str(tmp_path)])
    (tmp_path / "a.txt").write_text("other\n")
    (change,) = watching.end(seen).files
    assert "SMALL" not in change.diff
    with pytest.raises(Refusal, match="not kept"):
        watching.restore(change)


def test_a_folder_within_a_repository_is_watched_by_itself(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.txt").write_text("one\n")
    (tmp_path / "top.txt").write_text("one\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    watching = Watch()
    seen = watching.begin([str(tmp_path / "sub")])
    (tmp_path / "sub" / "a.txt").write_text("two\n")
    (tmp_path / "top.txt").write_text("two\n")
    (change,) = watching.end(seen).files
    assert (change.path, change.root) == ("a.txt", str(tmp_path / "sub"))


def test_roots_are_told_apart_and_one_within_another_counts_once(tmp_path: Path) -> None:
    for name in ("one/in", "two"):
        (tmp_path / name).mkdir(parents=True)
    roots = [str(tmp_path / name) for name in ("one", "one/in", "two")]
    watching = Watch([str(tmp_path / "two" / "book.ipynb")])
    seen = watching.begin(roots)
    for name in ("one/in/a", "two/a", "two/book.ipynb"):
        (tmp_path / name).write_text("x")
    found = watching.end(seen)
    assert [(change.root, change.path) for change in found.files] == [
        (roots[0], "in/a"),
        (roots[2], "a"),
    ]
    assert found.patch(roots[2]).count("diff --git") == 1


def test_a_running_notebook_and_what_is_beside_it_do_not_count(tmp_path: Path) -> None:
    files = watch.notebook_files(tmp_path / "n.ipynb")
    watching = Watch(files)
    seen = watching.begin([str(tmp_path)])
    for name in ("n.ipynb", ".~n.ipynb", "n.acp.jsonl", "other.ipynb"):
        (tmp_path / name).write_text("{}")
    (tmp_path / ".ipynb_checkpoints").mkdir()
    (tmp_path / ".ipynb_checkpoints" / "n-checkpoint.ipynb").write_text("{}")
    assert [change.path for change in watching.end(seen).files] == ["other.ipynb"]


def test_a_file_written_twice_within_one_moment_has_changed(tmp_path: Path) -> None:
    place = tmp_path / "a"
    place.write_text("one")
    watching = Watch()
    for text in ("two", "six", "ten"):
        seen = watching.begin([str(tmp_path)])
        times = os.stat(place)
        place.write_text(text)
        os.utime(place, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert [change.path for change in watching.end(seen).files] == ["a"]


def test_bounds_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "large").write_bytes(b"x" * 1_500_000)
    watching = Watch()
    seen = watching.begin([str(tmp_path)])
    (tmp_path / "large").write_bytes(b"y" * 1_500_000)
    (tmp_path / "huge").write_bytes(b"z" * 9_000_000)
    found = watching.end(seen)
    notes = {change.path: change.note for change in found.files}
    assert notes == {"huge": "too large to be compared", "large": "too large to be compared"}
    with pytest.raises(Refusal, match="not kept"):
        watching.restore(next(change for change in found.files if change.path == "large"))
    assert watching.restore(next(change for change in found.files if change.path == "huge"))
    assert not (tmp_path / "huge").exists()

    monkeypatch.setattr(snapshot, "MAX_FILES", 3)
    for number in range(4):
        (tmp_path / str(number)).write_text("")
    found = watching.end(watching.begin([str(tmp_path)]))
    assert "more than 3 files" in found.notes[0]
    assert found.count == 0


def test_more_changes_than_are_named_are_counted(tmp_path: Path) -> None:
    watching = Watch()
    seen = watching.begin([str(tmp_path)])
    for number in range(1_010):
        (tmp_path / f"{number:04}").write_text("")
    found = watching.end(seen)
    assert (len(found.files), found.more, found.count) == (1_000, 10, 1_010)
    assert "and 960 more" in "\n".join(rendering.to_lines(found))


def test_what_was_kept_is_bounded_and_the_newest_stays() -> None:
    contents = Contents(limit=1_000)
    idents = [contents.put(bytes([number]) * 400) for number in range(7)]
    assert [ident in contents for ident in idents] == [False, False, False, False, True, True, True]
    assert contents.get(idents[-1]) == bytes([6]) * 400
    assert contents.get(idents[0]) is None


# -- undoing ----------------------------------------------------------------------------------


def test_what_has_changed_since_is_left_alone(tmp_path: Path) -> None:
    watching = Watch()
    (tmp_path / "gone").write_text("old")
    seen = watching.begin([str(tmp_path)])
    (tmp_path / "made").write_text("x")
    (tmp_path / "gone").unlink()
    gone, made = watching.end(seen).files
    (tmp_path / "made").write_text("mine")
    (tmp_path / "gone").write_text("mine too")
    for change in (gone, made):
        with pytest.raises(Refusal, match="changed since"):
            watching.restore(change)
    assert (tmp_path / "made").read_text() == "mine"
    assert (tmp_path / "gone").read_text() == "mine too"
    assert watching.restore(gone, anyway=True)
    assert watching.restore(made, anyway=True)
    assert (tmp_path / "gone").read_text() == "old"
    assert not (tmp_path / "made").exists()


def test_f32_undoing_goes_through_no_link(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    (inside / "d").mkdir(parents=True)
    outside.mkdir()
    (outside / "a").write_text("theirs")
    watching = Watch()
    (inside / "d" / "b").write_text("old")
    seen = watching.begin([str(inside)])
    (inside / "d" / "a").write_text("theirs")
    (inside / "d" / "b").unlink()
    changes = watching.end(seen).files
    (inside / "d" / "a").unlink()
    (inside / "d").rmdir()
    (inside / "d").symlink_to(outside)
    made, deleted = changes
    assert not watching.restore(made, anyway=True)
    with pytest.raises(Refusal, match="link"):
        watching.restore(deleted, anyway=True)
    assert [path.name for path in outside.iterdir()] == ["a"]


def test_f32_a_folder_swapped_for_a_link_is_neither_read_nor_written(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    (inside / "d").mkdir(parents=True)
    outside.mkdir()
    (outside / "a").write_text("SECRET")
    (inside / "d" / "a").write_text("ours")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            try:
                os.rename(inside / "d", inside / "e")
                os.symlink(outside, inside / "d")
                os.unlink(inside / "d")
                os.rename(inside / "e", inside / "d")
            except OSError:  # an undoing has made the folder meanwhile
                shutil.rmtree(inside / "e", ignore_errors=True)
                (inside / "d").mkdir(exist_ok=True)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        watching = Watch()
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            seen = watching.begin([str(inside)])
            found = watching.end(seen)
            assert "SECRET" not in found.patch()
            for change in found.files:
                try:
                    watching.restore(change)
                except Refusal:
                    continue
    finally:
        stop.set()
        swapping.join()
    assert (outside / "a").read_text() == "SECRET"
    assert len(list(outside.iterdir())) == 1


# -- around a turn ----------------------------------------------------------------------------


class Stuck:
    """A file system that does not answer."""

    def __init__(self) -> None:
        self.let_go = threading.Event()

    def begin(self, _roots: object) -> None:
        self.let_go.wait(60)


def test_a_file_system_that_does_not_answer_holds_no_prompt_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("acp_jupyter.client.changed.BEFORE", 0.05)
    stuck = Stuck()

    async def main() -> Changes | None:
        changed = TurnChanges()
        changed.watch = stuck  # type: ignore[assignment]
        await changed.begin(["/"])
        return await changed.end(abandoned=False)

    try:
        found = trio.run(main)
    finally:
        stuck.let_go.set()
    assert found is not None
    assert "took too long" in found.notes[0]


def test_a_turn_has_its_changes_and_keeps_them_in_a_pickle(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old\n")
    with acp.connect("demo", cwd=tmp_path, permissions="allow") as agent:
        session = agent.new_session()
        turn = session.prompt("edit a.txt: old -> new")
        quiet = session.prompt("hello")
    (change,) = turn.changes
    assert (change.path, change.kind, change.added, change.removed) == ("a.txt", "modified", 1, 1)
    assert turn.changes_unknown == []
    assert quiet.changes == []
    assert quiet.patch == ""
    assert pickle.loads(pickle.dumps(turn)).patch == turn.patch
    git(tmp_path, "init", "-q")
    (tmp_path / "p").write_text(turn.patch)
    git(tmp_path, "apply", "-R", "p")
    assert (tmp_path / "a.txt").read_text() == "old\n"
    shown = turn._repr_mimebundle_()
    assert "Changed while it ran: 1 file" in shown["text/plain"]
    assert "Changed while it ran: 1 file" in shown["text/html"]


def test_a_cancelled_turn_has_its_changes_too(tmp_path: Path) -> None:
    with acp.connect("demo", cwd=tmp_path, permissions="allow") as agent:
        session = agent.new_session()
        with pytest.raises(TurnCancelled):
            session.prompt("write a.txt: x; slow 600", timeout=2)
        (turn,) = session.turns
    if (tmp_path / "a.txt").exists():  # unless the machine took 2 s for it
        assert [change.path for change in turn.changes] == ["a.txt"]
    assert turn.changes_unknown == []


def test_changes_are_recorded_and_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, path = tmp_path / "w", tmp_path / "r.jsonl"
    folder.mkdir()
    monkeypatch.setenv("ACP_JUPYTER_RECORD", str(path))
    with acp.connect("demo", cwd=folder, permissions="allow") as agent:
        session = agent.new_session()
        then = session.prompt("write a.txt: one")
        session.prompt("hello")
    monkeypatch.delenv("ACP_JUPYTER_RECORD")
    (folder / "a.txt").unlink()
    with acp.connect(f"replay:{path}", cwd=folder) as agent:
        session = agent.new_session()
        now = session.prompt("write a.txt: one")
        after = session.prompt("hello")
    assert now.patch == then.patch
    assert [(c.path, c.kind, c.added) for c in now.changes] == [("a.txt", "created", 1)]
    assert after.changes == []
    assert os.listdir(folder) == []
    footers = [turn._repr_mimebundle_()["text/plain"].split("\n")[-2:] for turn in (then, now)]
    assert footers[0] == footers[1]


def test_a_name_that_is_no_unicode_is_recorded_as_it_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.jsonl"
    (tmp_path / "make.py").write_text("open(b'caf\\xe9.txt', 'w').close()\n")
    monkeypatch.setenv("ACP_JUPYTER_RECORD", str(path))
    with acp.connect("demo", cwd=tmp_path, permissions="allow") as agent:
        turn = agent.new_session().prompt(f"run {sys.executable} make.py")
    assert os.fsdecode(b"caf\xe9.txt") in [change.path for change in turn.changes]
    assert "caf\ufffd.txt" in path.read_text("utf-8")


def test_recorded_changes_are_read_with_care() -> None:
    good = FileChange("a", "created", "diff", 1, 0)
    data = to_data(Changes((good,), 3, ("note",)), room=2)
    assert data["files"] == [{"path": "a", "kind": "created", "added": 1}]
    bad = [None, 1, {}, {"path": "a"}, {"path": 1, "kind": "mode"}, {"path": "a", "kind": "x"}]
    bad.append({"path": "a", "kind": "mode", "added": True})
    found = from_data([*data["files"], *bad], 3, ["note"])
    assert found == Changes((FileChange("a", "created", "", 1, 0),), 3, ("note",))
    line = recording.Changes(connection=1, t=0.0, session="s", **data)
    assert recording.decode(recording.encode(line)) == line


# -- in a notebook ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    with live_kernel(tmp_path_factory.mktemp("changed")) as running:
        running.run("%acp connect demo\n%acp permissions allow").expect_ok()
        yield running


def test_the_footer_names_the_changes_and_commands_show_and_undo_them(kernel: LiveKernel) -> None:
    cell = kernel.run("write told.txt: one")
    cell.expect_ok()
    assert "Changed while it ran: 1 file, +1" in cell.text
    kernel.run("hello").expect_ok()
    shown = kernel.run("%acp changes")
    shown.expect_ok()
    assert "+one" in shown.text
    undone = kernel.run("%acp undo")
    undone.expect_ok()
    assert "removed: told.txt" in undone.text
    assert not (kernel.cwd / "told.txt").exists()
    assert "as it was already: told.txt" in kernel.run("%acp undo").text


def test_undo_asks_before_it_takes_newer_text(kernel: LiveKernel) -> None:
    place = kernel.cwd / "newer.txt"
    kernel.run("write newer.txt: one").expect_ok()
    place.write_text("mine")
    headless = kernel.run("%acp undo")
    headless.expect_ok()
    assert "left alone: newer.txt (it has changed since)" in headless.text
    assert place.read_text() == "mine"
    asked = kernel.start("%acp undo", allow_stdin=True)
    kernel.finish(asked, answer=lambda _prompt: "2").expect_ok()
    assert place.read_text() == "mine"
    asked = kernel.start("%acp undo", allow_stdin=True)
    kernel.finish(asked, answer=lambda _prompt: "1").expect_ok()
    assert not place.exists()


def test_turns_are_named_by_their_number(kernel: LiveKernel) -> None:
    assert "no turn 4711" in kernel.run("%acp changes 4711").expect_error("UsageError").text
    assert "takes the number" in kernel.run("%acp undo this").expect_error("UsageError").text
