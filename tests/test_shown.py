"""Files that are put in place by undoing or accepting, where they are open in an editor."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio

from acp_jupyter.errors import Refusal
from acp_jupyter.services.workspace.disk import Folder, identity
from acp_jupyter.services.workspace.shown import put
from acp_jupyter.session.changes import Version

from .test_open_documents import Page, Pages

FILE = 0o100644


def version(text: str, mode: int = FILE) -> Version:
    return Version(mode, identity(text.encode()))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path.resolve() / "a.txt"
    made.write_text("agent\n")
    made.chmod(0o644)
    return made


def run(file: Path, page: Page, then: Version | None, text: str = "") -> Pages:
    pages = Pages(page)

    async def main() -> None:
        folder = Folder(str(file.parent))
        now = version("agent\n")
        await put(pages, folder, file.name, now=now, then=then, data=text.encode())

    trio.run(main)
    return pages


def test_an_editor_shows_what_is_put_in_place_and_the_file_has_it(file: Path) -> None:
    page = Page(file)
    run(file, page, version("before\n", 0o100755), "before\n")
    assert page.told == [("edit", "before\n"), ("settle", True)]
    assert file.read_text() == "before\n"
    assert file.stat().st_mode == 0o100755


def test_unsaved_edits_are_left_alone_whatever_is_to_become_of_the_file(file: Path) -> None:
    page = Page(file, "mine\n")
    for then in (version("before\n"), None):
        with pytest.raises(Refusal, match="unsaved edits in an editor"):
            run(file, page, then, "before\n")
    assert (page.told, file.read_text()) == ([], "agent\n")


def test_edits_in_a_shared_document_that_are_not_saved_yet_are_left_alone(file: Path) -> None:
    page = Page(file, "mine\n", shared=True, dirty=False)
    with pytest.raises(Refusal, match="unsaved edits in an editor"):
        run(file, page, version("before\n"), "before\n")
    assert (page.told, file.read_text()) == ([], "agent\n")


def test_a_shared_document_is_edited_and_the_file_gets_its_permissions(file: Path) -> None:
    page = Page(file, "agent\n", shared=True, dirty=False)
    pages = Pages(page)
    pages.on_edit = lambda: file.write_text("before\n")

    async def main() -> None:
        then = version("before\n", 0o100600)
        folder = Folder(str(file.parent))
        await put(pages, folder, file.name, now=version("agent\n"), then=then, data=b"before\n")

    trio.run(main)
    assert page.told == [("edit", "before\n")]
    assert (file.read_text(), file.stat().st_mode) == ("before\n", 0o100600)


def test_what_has_changed_on_disk_is_not_shown(file: Path) -> None:
    page = Page(file)
    file.write_text("newer\n")
    with pytest.raises(Refusal, match="changed since"):
        run(file, page, version("before\n"), "before\n")
    assert (page.told, file.read_text()) == ([], "newer\n")


def test_what_no_editor_can_show_is_only_put_in_place(file: Path) -> None:
    page = Page(file)
    then = Version(FILE, identity(b"\0\xff"))
    pages = Pages(page)

    async def main() -> None:
        folder = Folder(str(file.parent))
        await put(pages, folder, file.name, now=version("agent\n"), then=then, data=b"\0\xff")

    trio.run(main)
    assert page.told == []
    assert file.read_bytes() == b"\0\xff"


def test_a_file_is_removed_where_its_document_has_no_unsaved_edits(file: Path) -> None:
    run(file, Page(file), None)
    assert os.listdir(file.parent) == []
