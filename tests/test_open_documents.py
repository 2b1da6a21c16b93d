"""Files that are open in a frontend: served from its text, written with it, on real files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from acp_jupyter.errors import ErrorCode, Refusal, UsageError
from acp_jupyter.host import live_documents
from acp_jupyter.host.live_documents import PageDocuments
from acp_jupyter.services.files import Changed, FileService, NotText
from acp_jupyter.services.local_files import LocalFiles
from acp_jupyter.services.open_documents import EditOutcome, OpenDocument, OpenDocumentFiles
from acp_jupyter.services.roots import Roots

from .bench.kernels import OURS, PLAIN
from .live_kernel import Cell, LiveKernel, as_server, live_kernel
from .live_page import LivePage


class Page:
    """A page that has one document open; it does as the extension does.

    Args:
        unsaved: the text that is shown; without one, what the file holds.
        facts: what it says besides, see `OpenDocument`.
    """

    def __init__(self, path: Path, unsaved: str | None = None, **facts: Any) -> None:
        self.path = str(path)
        self.facts = facts
        self.outcome: EditOutcome = "made"
        stored = path.read_bytes().decode().replace("\r\n", "\n").replace("\r", "\n")
        self.text = stored if unsaved is None else unsaved
        self.dirty = unsaved is not None
        self.told: list[Any] = []
        self.before = self.text

    def document(self, name: str) -> OpenDocument:
        known: dict[str, Any] = {"kind": "text", "dirty": self.dirty, "text": None}
        if self.dirty or self.facts.get("shared"):
            known["text"] = self.text
        return OpenDocument(page=name, path=self.path, revision="1", **known | self.facts)


class Pages:
    """The pages of a user."""

    def __init__(self, *pages: Page) -> None:
        self.writing = trio.Lock()
        self.pages = {str(number): page for number, page in enumerate(pages)}
        self.elsewhere: Page | None = None
        self.joined: list[str] = []
        self.on_edit: Callable[[], object] = lambda: None

    async def find(self, path: str) -> Sequence[OpenDocument]:
        await trio.lowlevel.checkpoint()
        known = self.pages.items()
        found = [(name, page) for name, page in known if page.path == path]
        return [page.document(name) for name, page in found]

    async def join(self, path: str) -> OpenDocument | None:
        await trio.lowlevel.checkpoint()
        self.joined.append(path)
        return None if self.elsewhere is None else self.elsewhere.document("elsewhere")

    async def edit(self, document: OpenDocument, text: str) -> EditOutcome:
        await trio.lowlevel.checkpoint()
        page = self._page(document)
        page.told.append(("edit", text))
        if page.outcome == "made":
            page.before, page.text = page.text, text
        self.on_edit()
        return page.outcome

    async def settle(self, document: OpenDocument, *, saved: bool) -> None:
        await trio.lowlevel.checkpoint()
        page = self._page(document)
        page.told.append(("settle", saved))
        if saved:
            page.dirty = False
        elif page.outcome == "made":
            page.text = page.before

    async def reload(self, document: OpenDocument) -> None:
        await trio.lowlevel.checkpoint()
        self._page(document).told.append("reload")

    def _page(self, document: OpenDocument) -> Page:
        page = self.elsewhere if document.page == "elsewhere" else self.pages[document.page]
        assert page is not None
        return page


def service(tmp_path: Path, *pages: Page) -> tuple[FileService, Pages]:
    documents = Pages(*pages)
    files = OpenDocumentFiles(LocalFiles(Roots([str(tmp_path)])), lambda: documents)
    return FileService(files, observe=lambda _event: None), documents


def made(tmp_path: Path, content: str, name: str = "a.txt") -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode())
    return path


async def read(files: FileService, path: Path, **window: int) -> str:
    answer = await files.read_text_file({"path": str(path), **window})
    text: str = answer["content"]
    return text


async def write(files: FileService, path: Path, content: str) -> None:
    await files.write_text_file({"path": str(path), "content": content})


# -- reading ------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
async def test_unsaved_text_is_read_with_the_line_ends_of_its_file(
    tmp_path: Path, end: str
) -> None:
    path = made(tmp_path, f"one{end}")
    files, _ = service(tmp_path, Page(path, "zero\none\n"))
    assert await read(files, path) == f"zero{end}one{end}"
    if end != "\r":
        assert await read(files, path, line=2, limit=1) == f"one{end}"


async def test_text_without_edits_is_what_the_file_holds(tmp_path: Path) -> None:
    path = made(tmp_path, "one\r\ntwo\nthree\r")
    files, _ = service(tmp_path, Page(path))
    assert await read(files, path) == "one\r\ntwo\nthree\r"


async def test_f32_what_is_open_behind_a_link_is_not_served(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    outside = made(tmp_path, "secret")
    for name, target in (("link.txt", outside), ("folder", tmp_path)):
        (root / name).symlink_to(target)
    for path in (root / "link.txt", root / "folder" / "a.txt"):
        page = Page(path, "secret and more")
        files, _ = service(root, page)
        with pytest.raises(Refusal, match="link"):
            await read(files, path)
        with pytest.raises(Refusal, match="link"):
            await write(files, path, "x")
        assert page.told == []
    assert outside.read_text() == "secret"


async def test_a_protected_file_is_asked_for_whether_or_not_it_is_open(tmp_path: Path) -> None:
    path = made(tmp_path, "KEY=1", ".env")
    files, _ = service(tmp_path, Page(path, "KEY=2"))
    with pytest.raises(Refusal, match="protected"):
        await read(files, path)


@pytest.mark.parametrize(
    ("facts", "says"),
    [({"outdated": True}, "changed on disk, too"), ({"text": None}, "too large")],
)
async def test_what_the_user_has_to_decide_is_not_read(
    tmp_path: Path, facts: dict[str, Any], says: str
) -> None:
    path = made(tmp_path, "one")
    files, _ = service(tmp_path, Page(path, "mine", **facts))
    with pytest.raises(Refusal, match=says):
        await read(files, path)


async def test_pages_that_disagree_are_refused_and_those_that_agree_are_one(
    tmp_path: Path,
) -> None:
    path = made(tmp_path, "one")
    files, _ = service(tmp_path, Page(path), Page(path, "mine"), Page(path, "mine"))
    assert await read(files, path) == "mine"
    files, _ = service(tmp_path, Page(path, "mine"), Page(path, "theirs"))
    with pytest.raises(Refusal, match="2 pages with different unsaved edits"):
        await read(files, path)


async def test_an_edited_file_that_was_deleted_is_left_to_the_user(tmp_path: Path) -> None:
    path = made(tmp_path, "one")
    files, _ = service(tmp_path, Page(path, "mine"))
    path.unlink()
    for serve in (read(files, path), write(files, path, "x")):
        with pytest.raises(Refusal, match="was deleted") as refused:
            await serve
        assert refused.value.code != ErrorCode.RESOURCE_NOT_FOUND
    assert not path.exists()


async def test_half_a_surrogate_pair_is_no_text(tmp_path: Path) -> None:
    path = made(tmp_path, "one")
    files, _ = service(tmp_path, Page(path, "mine \ud800"))
    with pytest.raises(Refusal, match="surrogate"):
        await read(files, path)


async def test_an_edited_notebook_is_read_as_it_would_be_saved(tmp_path: Path) -> None:
    path = made(tmp_path, "{}", "a.ipynb")
    cell: dict[str, Any] = {
        "cell_type": "code",
        "id": "c1",
        "source": "1 + 1\n2",
        "metadata": {"trusted": True},
        "outputs": [],
        "execution_count": None,
    }
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}
    page = Page(path, json.dumps(notebook), kind="notebook")
    files, _ = service(tmp_path, page)
    found = json.loads(await read(files, path))
    assert found["cells"][0] == {**cell, "metadata": {}, "source": ["1 + 1\n", "2"]}
    page.text = "[]"
    with pytest.raises(NotText):
        await read(files, path)


# -- writing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dirty", [False, True])
async def test_a_write_is_shown_and_then_in_the_file(tmp_path: Path, dirty: bool) -> None:
    path = made(tmp_path, "one\r\n")
    page, other = Page(path, "mine\n" if dirty else None), Page(path)
    files, documents = service(tmp_path, page, other)
    seen: list[bytes] = []
    documents.on_edit = lambda: seen.append(path.read_bytes())
    await read(files, path)
    await write(files, path, "two\r\n")
    assert seen == [b"one\r\n", b"one\r\n"]
    assert path.read_bytes() == b"two\r\n"
    assert page.told == other.told == [("edit", "two\n"), ("settle", True)]
    await write(files, path, "three\n")  # what was written is what the agent has seen
    assert path.read_bytes() == b"three\n"


async def test_f36_edits_that_were_not_read_are_not_written_over(tmp_path: Path) -> None:
    path = made(tmp_path, "one")
    page = Page(path, "mine")
    files, _ = service(tmp_path, page)
    with pytest.raises(Changed, match="newer than what was seen"):
        await write(files, path, "theirs")
    await read(files, path)
    page.text = "mine and more"
    with pytest.raises(Changed, match="newer than what was seen"):
        await write(files, path, "theirs")
    assert (page.told, page.text, path.read_text()) == ([], "mine and more", "one")


async def test_what_the_user_saves_as_the_agent_has_read_it_may_be_replaced(
    tmp_path: Path,
) -> None:
    path = made(tmp_path, "one")
    page = Page(path, "mine")
    files, _ = service(tmp_path, page)
    await read(files, path)
    path.write_text("mine")
    page.dirty = False
    await write(files, path, "theirs")
    assert (page.text, path.read_text()) == ("theirs", "theirs")


async def test_a_change_on_the_disk_is_refused_before_anything_is_shown(tmp_path: Path) -> None:
    path = made(tmp_path, "one")
    page = Page(path)
    files, _ = service(tmp_path, page)
    await read(files, path)
    path.write_text("other")
    with pytest.raises(Changed, match="changed on disk"):
        await write(files, path, "theirs")
    assert (page.told, path.read_text()) == ([], "other")


async def test_what_cannot_be_written_is_taken_back(tmp_path: Path) -> None:
    path = made(tmp_path, "one")
    os.link(path, tmp_path / "second-name")
    page = Page(path)
    files, documents = service(tmp_path, page)
    with pytest.raises(Refusal, match="second name"):
        await write(files, path, "theirs")
    assert (page.told, page.text) == ([("edit", "theirs"), ("settle", False)], "one")
    (tmp_path / "second-name").unlink()
    documents.on_edit = lambda: path.write_text("at the last moment")
    with pytest.raises(Changed):
        await write(files, path, "theirs")
    assert (page.text, path.read_text()) == ("one", "at the last moment")


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        ("changed", "changed in the user's editor"),
        ("outdated", "changed on disk, too"),
        ("read-only", "read-only"),
        ("silent", "does not answer"),
    ],
)
async def test_a_page_that_cannot_show_it_keeps_the_file_as_it_is(
    tmp_path: Path, outcome: EditOutcome, says: str
) -> None:
    path = made(tmp_path, "one")
    first, second = Page(path), Page(path)
    second.outcome = outcome
    files, _ = service(tmp_path, first, second)
    with pytest.raises(Refusal, match=says):
        await write(files, path, "theirs")
    assert first.told == second.told == [("edit", "theirs"), ("settle", False)]
    assert (first.text, path.read_text()) == ("one", "one")


async def test_what_is_too_large_for_a_page_is_not_written_behind_it(tmp_path: Path) -> None:
    path = made(tmp_path, "one")
    page = Page(path)
    files, documents = service(tmp_path, page)
    with pytest.raises(Refusal, match="has to close it first"):
        await write(files, path, "x" * (2**20 + 1))
    assert (page.told, path.read_text()) == ([], "one")
    documents.pages.clear()
    await write(files, path, "x" * (2**20 + 1))
    assert path.stat().st_size == 2**20 + 1


async def test_a_document_that_is_closed_meanwhile_needs_to_show_nothing(tmp_path: Path) -> None:
    path = made(tmp_path, "one")
    page = Page(path)
    page.outcome = "closed"
    files, _ = service(tmp_path, page)
    await write(files, path, "theirs")
    assert path.read_text() == "theirs"


async def test_a_shared_document_is_written_by_its_server(tmp_path: Path) -> None:
    path = made(tmp_path, "one\r\n")
    page = Page(path, "mine\r\n", shared=True, dirty=False)
    files, documents = service(tmp_path, page, Page(path, "mine\r\nlate", shared=True))
    assert await read(files, path) == "mine\r\n"
    documents.on_edit = lambda: path.write_bytes(page.text.encode())
    await write(files, path, "theirs\r\n")
    assert page.told == [("edit", "theirs\r\n")]
    assert path.read_bytes() == b"theirs\r\n"


async def test_a_shared_document_that_only_others_have_open_is_joined_for_a_write(
    tmp_path: Path,
) -> None:
    path = made(tmp_path, "one")
    files, documents = service(tmp_path)
    elsewhere = documents.elsewhere = Page(path, shared=True)
    documents.on_edit = lambda: path.write_bytes(elsewhere.text.encode())
    await write(files, path, "two")  # there is nothing in it that is not in the file
    assert await read(files, path) == "two"
    elsewhere.text = "two and hers"
    with pytest.raises(Changed, match="newer than what was seen"):
        await write(files, path, "three")
    assert elsewhere.told == [("edit", "two"), ("settle", True), ("settle", True)]
    assert (elsewhere.text, path.read_text()) == ("two and hers", "two")
    elsewhere.text = "two"
    elsewhere.outcome = "closed"
    with pytest.raises(Refusal, match="try again"):
        await write(files, path, "three")
    assert path.read_text() == "two"


async def test_only_text_that_is_there_is_joined(tmp_path: Path) -> None:
    files, documents = service(tmp_path)
    binary, notebook = made(tmp_path, "\0", "a.bin"), made(tmp_path, "{}", "a.ipynb")
    for path in (binary, notebook, tmp_path / "new.txt"):
        await write(files, path, "text")
        assert path.read_text() == "text"
    assert documents.joined == []
    await write(files, tmp_path / "new.txt", "again")  # where documents are not shared
    await write(files, tmp_path / "new.txt", "x" * (2**20 + 1))
    assert documents.joined == [str(tmp_path / "new.txt")]
    documents.elsewhere = Page(tmp_path / "new.txt", shared=True, text=None)  # too large
    await write(files, tmp_path / "new.txt", "small")
    assert (tmp_path / "new.txt").read_text() == "small"
    assert documents.elsewhere.told == [("settle", True)]


async def test_a_notebook_is_written_without_edits_only_and_then_shown_anew(
    tmp_path: Path,
) -> None:
    path = made(tmp_path, "{}", "a.ipynb")
    page = Page(path, "{}", kind="notebook")
    files, _ = service(tmp_path, page)
    with pytest.raises(Refusal, match="has to save it first"):
        await write(files, path, "new")
    page.dirty = False
    await write(files, path, "new")
    assert (page.told, path.read_text()) == (["reload"], "new")


async def test_files_that_are_not_open_are_the_disks(tmp_path: Path) -> None:
    path, other = made(tmp_path, "one"), made(tmp_path, "two", "b.txt")
    files, _ = service(tmp_path, Page(path, "mine"))
    assert await read(files, other) == "two"
    await write(files, other, "three")
    await write(files, tmp_path / "new" / "c.txt", "made")
    assert (other.read_text(), (tmp_path / "new" / "c.txt").read_text()) == ("three", "made")


# -- the pages ----------------------------------------------------------------------------------


class Comms:
    """Pages that answer by a function, or not at all."""

    def __init__(self, **pages: Callable[[dict[str, Any]], Any] | None) -> None:
        self.pages = pages
        self.heard = dict.fromkeys(pages, 1)
        self.asked: list[tuple[str, str]] = []
        self.documents = PageDocuments("/srv", lambda: self.heard, self.send)

    def send(self, page: str, message: dict[str, Any]) -> None:
        self.asked.append((page, message["question"]["path"]))
        answer = self.pages[page]
        if answer is not None:
            reply = {"ask": message["ask"], "answer": answer(message["question"])}
            trio.lowlevel.current_trio_token().run_sync_soon(self.documents.take, page, reply)


def is_open(_question: dict[str, Any]) -> Any:
    return {"kind": "text", "revision": "7", "dirty": True, "outdated": False, "text": "live"}


async def test_a_silent_page_is_waited_for_once_until_it_speaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    comms = Comms(silent=None, other=lambda _question: None, open=is_open)
    monkeypatch.setattr(live_documents, "ANSWER_WITHIN", 0.05)
    found = await comms.documents.find("/srv/a/b.py")
    assert [(document.page, document.text) for document in found] == [("open", "live")]
    assert set(comms.asked) == {("silent", "a/b.py"), ("other", "a/b.py"), ("open", "a/b.py")}
    comms.asked.clear()
    await comms.documents.find("/srv/a/b.py")
    assert ("silent", "a/b.py") not in comms.asked
    comms.heard["silent"] = 2
    await comms.documents.find("/srv/a/b.py")
    assert ("silent", "a/b.py") in comms.asked
    document = OpenDocument("silent", "a/b.py", "text", "7")
    comms.heard["silent"] = 3
    assert await comms.documents.edit(document, "x") == "silent"
    comms.heard["silent"] = 4
    monkeypatch.setattr(live_documents, "JOIN_WITHIN", 0.05)
    with pytest.raises(Refusal, match="try again"):
        await comms.documents.join("/srv/a/b.py")
    joined = await comms.documents.join("/srv/a/b.py")
    assert joined is not None
    assert joined.page == "open"


async def test_pages_are_asked_about_the_servers_files_only() -> None:
    comms = Comms(open=is_open)
    for path in ("/etc/passwd", "/srv", "/srv-other/a", "/"):
        assert await comms.documents.find(path) == []
    assert comms.asked == []


async def test_the_first_page_that_can_joins_a_document() -> None:
    comms = Comms(without=lambda _question: None, open=is_open, other=is_open)
    found = await comms.documents.join("/srv/a")
    assert found is not None
    assert found.page == "open"
    assert [page for page, _ in comms.asked] == ["without", "open"]
    assert await comms.documents.join("/etc/a") is None


async def test_what_a_page_leaves_out_counts_as_the_most_careful() -> None:
    comms = Comms(open=lambda _question: {"text": 7, "shared": "yes"})
    (found,) = await comms.documents.find("/srv/a")
    assert (found.dirty, found.outdated, found.read_only) == (True, True, True)
    assert (found.shared, found.text, found.kind) == (False, None, "text")


async def test_an_answer_to_no_question_or_of_another_page_is_refused() -> None:
    comms = Comms(open=is_open)
    sent: list[dict[str, Any]] = []

    def keep(_page: str, message: dict[str, Any]) -> None:
        sent.append(message)

    documents = PageDocuments("/srv", lambda: comms.heard, keep)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(documents.find, "/srv/a")
        await trio.testing.wait_all_tasks_blocked()
        for page, ask in (("open", "another"), ("stranger", sent[0]["ask"])):
            with pytest.raises(UsageError, match="too late, or to no question"):
                documents.take(page, {"ask": ask, "answer": None})
        documents.take("open", {"ask": sent[0]["ask"], "answer": None})


# -- kernels ------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[OURS, PLAIN])
def kernel(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveKernel]:
    """A kernel as a server starts it that has ended since, with the bundled agent."""
    home = tmp_path_factory.mktemp("documents")
    environment = as_server(home) | {"JPY_PARENT_PID": str(os.getpid())}
    facts = {
        "pid": os.getpid(),
        "url": "http://127.0.0.1:1/",  # where nobody listens
        "root_dir": str(home / "workspace"),
        "token": "t",
    }
    file = home / "runtime" / f"jpserver-{os.getpid()}.json"
    file.write_text(json.dumps(facts))
    file.chmod(0o600)
    with live_kernel(home, name=request.param, **environment) as running:
        if request.param == PLAIN:
            running.run("%load_ext acp_jupyter").expect_ok()
        running.run("%acp connect demo").expect_ok()
        yield running


def prompt(kernel: LiveKernel, text: str) -> Cell:
    loads = kernel.manager.kernel_name == PLAIN
    return kernel.start(f"%%acp\n{text}" if loads else text)


def answer_documents(page: LivePage, cell: Cell, answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Answer what the kernel asks until the cell has ended; returns the questions."""
    asked: list[dict[str, Any]] = []

    def answered() -> bool:
        for message in page.of_type("document")[len(asked) :]:
            asked.append(message["question"])
            op = message["question"]["op"]
            page.start("document", ask=message["ask"], answer=answer.get(op))
        return cell.done

    page.wait(answered, 60)
    cell.expect_ok()
    return asked


def test_a_page_is_asked_while_the_cell_that_needs_it_runs(kernel: LiveKernel) -> None:
    page = LivePage(kernel)
    path = made(kernel.cwd, "one\n")
    live = {"kind": "text", "revision": "7", "dirty": True, "shared": False, "readOnly": False}
    answer = {"find": live | {"outdated": False, "text": "one\nmine\n"}, "edit": "made"}
    cell = prompt(kernel, f"read {path.name}")
    assert answer_documents(page, cell, answer)[0] == {"op": "find", "path": path.name}
    assert "has 2 lines and 9 characters" in cell.text
    cell = prompt(kernel, f"mode trust; edit {path.name}: mine -> theirs")
    asked = answer_documents(page, cell, answer)
    edit = {"op": "edit", "path": path.name, "revision": "7", "text": "one\ntheirs\n"}
    assert asked[-2:] == [edit, {"op": "settle", "path": path.name, "saved": True}]
    assert path.read_text() == "one\ntheirs\n"
    page.close()
