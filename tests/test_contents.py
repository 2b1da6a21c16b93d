"""Files through the contents API of real servers, and where a file of the agent's is served."""

from __future__ import annotations

import base64
import json
import os
import socket
import threading
import traceback

import nbformat
import pytest
import trio

from acp_jupyter.errors import ErrorCode, Refusal
from acp_jupyter.services import contents as contents_module
from acp_jupyter.services.contents import ContentsFiles
from acp_jupyter.services.files import (
    WHOLE_LIMIT,
    Changed,
    FileService,
    NotText,
)
from acp_jupyter.services.files_routed import RoutedFiles, ServedDirectories
from acp_jupyter.services.jupyter_server import JupyterServer, ServerInfo, Unreachable
from acp_jupyter.services.roots import Roots
from tests.contents_servers import contents_server, info_of
from tests.swapper import swapping

MIB = 2**20

TEXTS = {
    "plain": "one\ntwo\n",
    "no final line end": "one\ntwo",
    "carriage returns": "one\r\ntwo\r\nthree",
    "mixed": "a\rb\nc\r\n\n",
    "byte order mark": "\ufeffname;value\n",
    "unicode": "naïve 日本語 🙂\n",
    "separators": "a\u2028b\x0cc\x1d\n",
    "empty": "",
}


class Desk:
    """A server's files with a service on them."""

    def __init__(self, server):
        self.server = server
        self.info = info_of(server)
        self.api = JupyterServer(self.info)
        self.roots = Roots([self.info.root])
        self.backend = ContentsFiles(self.roots, self.api)
        self.events: list = []
        self.conflicts: list[tuple] = []
        self.service = FileService(
            self.backend,
            observe=self.events.append,
            conflict=lambda *both: self.conflicts.append(both),
        )

    def path(self, name):
        return f"{self.info.root}/{name}"

    async def read(self, name, **params):
        answer = await self.service.read_text_file({"path": self.path(name), **params})
        return answer["content"]

    async def write(self, name, content):
        await self.service.write_text_file({"path": self.path(name), "content": content})

    def put(self, name, content, form="text", kind="file"):
        """Write as the user's browser does."""
        model = {"type": kind, "format": form, "content": content}
        self.server.request("PUT", f"api/contents/{name}", model)

    def get(self, name):
        return self.server.request("GET", f"api/contents/{name}")["content"]


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    with (
        contents_server("disk", tmp_path_factory.mktemp("disk")) as disk,
        contents_server("memory", tmp_path_factory.mktemp("memory")) as memory,
        contents_server("open", tmp_path_factory.mktemp("open")) as without_token,
    ):
        yield {"disk": disk, "memory": memory, "open": without_token}


@pytest.fixture(params=["disk", "memory"])
def desk(request, servers):
    return Desk(servers[request.param])


@pytest.fixture
def memory(servers):
    return Desk(servers["memory"])


@pytest.fixture
def disk(servers):
    return Desk(servers["disk"])


# -- what is read and written --------------------------------------------------------------------


async def test_f37_a_text_comes_back_as_it_was_written(desk):
    for name, text in TEXTS.items():
        await desk.write(f"{name}.txt", text)
        assert await desk.read(f"{name}.txt") == text, name
        assert desk.get(f"{name}.txt".replace(" ", "%20")) == text, name


async def test_windows_put_together_are_the_file(desk):
    text = "".join(f"line {number}\r\n" for number in range(1, 8)) + "end"
    desk.put("lines.txt", text)
    windows = [await desk.read("lines.txt", line=at, limit=3) for at in range(1, 12, 3)]
    assert "".join(windows) == text
    assert await desk.read("lines.txt", line=8) == "end"
    assert await desk.read("lines.txt", line=100) == ""


async def test_missing_directories_are_made_for_a_new_file(desk):
    with pytest.raises(Refusal) as missing:
        await desk.read("made/for it/new.txt")
    assert missing.value.code == ErrorCode.RESOURCE_NOT_FOUND
    await desk.write("made/for it/new.txt", "there")
    assert desk.get("made/for%20it/new.txt") == "there"
    await desk.write("made/other.txt", "beside")
    assert await desk.read("made/other.txt") == "beside"


async def test_a_server_without_a_token_is_written_too(servers):
    desk = Desk(servers["open"])
    await desk.write("sub/file.txt", "written")
    assert (servers["open"].root / "sub/file.txt").read_text() == "written"


async def test_f35_what_is_no_text_is_refused(desk):
    desk.put("image.bin", base64.b64encode(b"\x89PNG\r\n\xff\x00").decode(), form="base64")
    desk.put("null.txt", "a\0b")
    for name in ("image.bin", "null.txt"):
        with pytest.raises(NotText, match="not UTF-8 text"):
            await desk.read(name)


async def test_f35_a_large_file_is_read_in_windows_only(desk, monkeypatch):
    monkeypatch.setattr(contents_module, "FETCH_LIMIT", WHOLE_LIMIT + 2 * MIB)
    line = "x" * 1023 + "\n"
    desk.put("large.txt", line * (WHOLE_LIMIT // 1024 + 1))
    with pytest.raises(NotText, match="read it with line and limit"):
        await desk.read("large.txt")
    assert await desk.read("large.txt", line=2, limit=3) == line * 3
    with pytest.raises(NotText, match="windows"):
        await desk.read("large.txt", line=2)
    desk.put("larger.txt", "x" * (WHOLE_LIMIT + 2 * MIB + 1))
    with pytest.raises(NotText):
        await desk.read("larger.txt", line=1, limit=1)


async def test_f36_a_file_that_changed_is_not_written_and_both_versions_are_told(desk):
    desk.put("notes.txt", "old\n")
    await desk.read("notes.txt")
    desk.put("notes.txt", "the user's\n")
    with pytest.raises(Changed, match="changed on disk since it was read; read it again"):
        await desk.write("notes.txt", "the agent's\n")
    assert desk.get("notes.txt") == "the user's\n"
    assert desk.conflicts == [(desk.path("notes.txt"), "the user's\n", "the agent's\n")]
    await desk.read("notes.txt")
    await desk.write("notes.txt", "both\n")
    await desk.write("notes.txt", "both, and more\n")  # its own write is no stranger's
    assert desk.get("notes.txt") == "both, and more\n"


async def test_f36_one_that_appeared_or_vanished_is_not_written(desk):
    with pytest.raises(Refusal):
        await desk.read("later.txt")
    desk.put("later.txt", "the user's")
    with pytest.raises(Changed):
        await desk.write("later.txt", "the agent's")
    await desk.read("later.txt")
    desk.server.request("DELETE", "api/contents/later.txt")
    with pytest.raises(Changed, match="was deleted"):
        await desk.write("later.txt", "the agent's")


async def test_directories_and_hidden_files_are_refused(desk):
    desk.put("folder", None, kind="directory", form=None)
    for name in ("folder", ""):
        with pytest.raises(Refusal, match="is a directory"):
            await desk.read(name)
        with pytest.raises(Refusal, match="is a directory"):
            await desk.write(name, "x")
    with pytest.raises(Refusal, match="hidden"):
        await desk.write(".config", "x")


async def test_a_notebook_is_read_as_json_and_never_trusted(desk):
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell("1 + 1\n2", id="kept", metadata={"trusted": True})]
    notebook.cells[0].outputs = [
        nbformat.v4.new_output("display_data", {"text/html": "<script>alert(1)</script>"})
    ]
    desk.put("unsigned.ipynb", {**notebook, "cells": []}, kind="notebook", form="json")
    text = nbformat.writes(notebook)
    await desk.read("unsigned.ipynb")
    await desk.write("unsigned.ipynb", text)
    found = json.loads(await desk.read("unsigned.ipynb"))
    nbformat.validate(found)
    assert found["cells"][0]["id"] == "kept"
    assert "trusted" not in found["cells"][0]["metadata"]
    saved = desk.get("unsigned.ipynb")["cells"][0]
    assert saved["metadata"]["trusted"] is False
    assert saved["source"] == "1 + 1\n2"
    text = await desk.read("unsigned.ipynb", _meta={"acp-jupyter": {"notebook": "text"}})
    assert text == "# %% [code] id=kept\n1 + 1\n2\n"


# -- the server itself ---------------------------------------------------------------------------


async def test_f59_a_redirect_is_not_followed_and_the_token_told_to_nobody():
    asked: list[bytes] = []

    def serve():
        connection, _ = listener.accept()
        with connection:
            asked.append(connection.recv(65536))
            target = f"http://127.0.0.1:{other.getsockname()[1]}/"
            head = f"HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n"
            connection.sendall(head.encode())

    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        other.settimeout(0)
        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        server = JupyterServer(ServerInfo(url, "/nowhere", "canary-token"))
        answer = await server.request("GET", "contents")
        thread.join(10)
        assert answer.status == 302
        with pytest.raises(BlockingIOError):
            other.accept()
    assert b"canary-token" in asked[0]
    assert "canary" not in repr(server) + repr(server.info)
    with pytest.raises(Unreachable) as gone:
        await server.request("GET", "contents")
    assert gone.value.gone
    assert "canary" not in str(gone.value)


@pytest.mark.parametrize("token", ["canary\ntoken", "canary-\u2603"])
async def test_a_token_that_no_header_can_hold_is_not_told_either(token):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        server = JupyterServer(ServerInfo(url, "/nowhere", token))
        with pytest.raises(Unreachable) as told:
            await server.request("GET", "contents")
    shown = "".join(traceback.format_exception(told.value))
    assert "could not be asked" in shown
    assert "canary" not in shown


async def test_a_request_to_a_server_that_hangs_ends_when_it_is_cancelled():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        server = JupyterServer(ServerInfo(url, "/nowhere", ""))
        begun = trio.current_time()
        with trio.move_on_after(0.2):
            await server.request("GET", "contents")
        assert trio.current_time() - begun < 10
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(10)
            while connection.recv(65536):  # to the end that the client has made
                pass


async def test_an_answer_beyond_its_bound_is_not_read():
    def serve():
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(
                b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n" + b" " * 5000
            )

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        server = JupyterServer(ServerInfo(url, "/nowhere", ""))
        with pytest.raises(Refusal, match="more than 1000 bytes"):
            await server.request("GET", "contents", largest=1000)
        thread.join(10)


# -- where a file is -----------------------------------------------------------------------------


def routed(desk, root, told):
    return RoutedFiles(Roots([str(root)]), ServedDirectories(desk.api), told.append)


async def test_files_of_a_server_on_this_disk_are_opened_below_the_roots(disk, tmp_path):
    told: list[str] = []
    outside = tmp_path / "outside.txt"
    outside.write_text("secret")
    root = disk.server.root / "project"
    root.mkdir()
    (root / "inside.txt").write_text("inside")
    (root / "link.txt").symlink_to(outside)
    (root / ".hidden").mkdir()
    files = routed(disk, root, told)
    assert (await files.read(files.locate(f"{root}/inside.txt"))).text == "inside"
    with pytest.raises(Refusal, match="symbolic link"):
        await files.read(files.locate(f"{root}/link.txt"))
    # The contents API itself would have followed it.
    assert disk.get("project/link.txt") == "secret"
    hidden = routed(disk, root / ".hidden", told)
    await hidden.write(hidden.locate(f"{root}/.hidden/x"), "x", expected=None)
    assert (root / ".hidden/x").read_text() == "x"
    assert told == []


async def test_save_hooks_run_if_they_are_asked_for_and_the_checks_come_first(disk, tmp_path):
    root = disk.server.root / "hooked"
    root.mkdir()
    (root / "link").symlink_to(tmp_path)
    for hooks in (False, True):
        served = ServedDirectories(disk.api)
        told: list[str] = []
        files = RoutedFiles(Roots([str(root)]), served, told.append, save_hooks=hooks)
        located = files.locate(f"{root}/sub/{hooks}.txt")
        version = await files.write(located, "one", expected=None)
        assert (await files.read(located)).version.matches(version)
        (root / f"sub/{hooks}.txt").write_text("the user's")
        with pytest.raises(Changed):
            await files.write(located, "two", expected=version)
        with pytest.raises(Refusal, match="symbolic link"):
            await files.write(files.locate(f"{root}/link/{hooks}.txt"), "x", expected=None)
        await files.write(files.locate(f"{root}/.hidden"), "x", expected=None)
        assert told == []
    assert sorted(os.listdir(root / "sub")) == ["False.txt", "True.txt", "True.txt.saved"]
    assert (root / "sub/True.txt.saved").read_text() == "file\n"
    assert os.listdir(tmp_path) == []
    assert (root / ".hidden").read_text() == "x"


async def test_f32_a_directory_swapped_for_a_link_leads_a_disk_server_nowhere(disk, tmp_path):
    root = disk.server.root / "race"
    (root / "inside").mkdir(parents=True)
    (root / "inside/file").write_text("inside")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("outside")
    files = routed(disk, root, [])
    await files.read(files.locate(f"{root}/inside/file"))
    read = 0
    link = root / "link"
    link.symlink_to(outside)
    with swapping(root / "inside", link):
        ends = trio.current_time() + 1.0
        while trio.current_time() < ends:
            located = files.locate(f"{root}/inside/file")
            try:
                assert (await files.read(located)).text != "outside"
                read += 1
                await files.write(located, "inside", expected=None)
            except Refusal:
                pass
    assert read > 0
    assert (outside / "file").read_text() == "outside"
    assert os.listdir(outside) == ["file"]


async def test_files_that_are_not_on_this_disk_are_the_servers(memory):
    told: list[str] = []
    root = memory.server.root
    (root / "decoy.txt").write_text("on the disk")
    memory.put("decoy.txt", "in memory")
    files = routed(memory, root, told)
    located = files.locate(f"{root}/decoy.txt")
    content = await files.read(located)
    assert content.text == "in memory"
    await files.write(located, "written", expected=content.version)
    await files.write(files.locate(f"{root}/new/made.txt"), "new", expected=None)
    assert memory.get("decoy.txt") == "written"
    assert memory.get("new/made.txt") == "new"
    assert (root / "decoy.txt").read_text() == "on the disk"
    assert not (root / "new").exists()
    # A folder that the server does not have is still the server's to make.
    (root / "only here").mkdir()
    below = routed(memory, root / "only here", told)
    await below.write(below.locate(f"{root}/only here/file"), "x", expected=None)
    assert os.listdir(root / "only here") == []
    assert told == []


async def test_what_lies_outside_of_the_servers_directory_is_on_the_disk(memory, tmp_path):
    files = routed(memory, tmp_path, [])
    await files.write(files.locate(f"{tmp_path}/file.txt"), "local", expected=None)
    assert (tmp_path / "file.txt").read_text() == "local"


async def test_a_server_that_lets_nobody_in_leaves_the_disk_and_says_so_once(disk):
    told: list[str] = []
    root = disk.server.root
    info = ServerInfo(disk.info.url, disk.info.root, "wrong")
    files = RoutedFiles(Roots([str(root)]), ServedDirectories(JupyterServer(info)), told.append)
    for text in ("one", "two"):
        await files.write(files.locate(f"{root}/locked.txt"), text, expected=None)
    assert (root / "locked.txt").read_text() == "two"
    assert len(told) == 1
    assert "password" in told[0]


async def test_a_server_that_is_gone_leaves_the_disk(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    served = ServedDirectories(JupyterServer(ServerInfo(url, str(tmp_path), "token")))
    files = RoutedFiles(Roots([str(tmp_path)]), served, lambda _text: None)
    await files.write(files.locate(f"{tmp_path}/file.txt"), "local", expected=None)
    assert (tmp_path / "file.txt").read_text() == "local"


async def test_a_server_that_does_not_say_where_its_files_are_is_not_guessed(tmp_path):
    def serve():
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        served = ServedDirectories(JupyterServer(ServerInfo(url, str(tmp_path), "token")))
        files = RoutedFiles(Roots([str(tmp_path)]), served, lambda _text: None)
        with pytest.raises(Refusal, match="503; try again"):
            await files.write(files.locate(f"{tmp_path}/file.txt"), "x", expected=None)
        thread.join(10)
    assert os.listdir(tmp_path) == []
