"""Notebooks as an agent reads and writes them, and the one that runs."""

from __future__ import annotations

import json
import os

import nbformat
import pytest

from acp_jupyter.errors import ErrorCode, Refusal, UsageError
from acp_jupyter.services.documents import NotebookFiles
from acp_jupyter.services.files import Changed, FileService
from acp_jupyter.services.local_files import LocalFiles
from acp_jupyter.services.notebooks import as_text, checked, proposal
from acp_jupyter.services.roots import Roots

HTML = {"text/html": "<b>output</b>", "text/plain": "output"}


def cell(source, ident=None, kind="code", **fields):
    made = {"cell_type": kind, "metadata": {}, "source": source, **fields}
    if kind == "code":
        made = {"execution_count": None, "outputs": [], **made}
    return made if ident is None else made | {"id": ident}


def notebook(*cells, minor=5, **metadata):
    return json.dumps(
        {"cells": list(cells), "metadata": metadata, "nbformat": 4, "nbformat_minor": minor}
    )


OUTPUT = {"output_type": "display_data", "data": HTML, "metadata": {}}
SAMPLE = notebook(
    cell(["# Title\n", "text"], "m", "markdown"),
    cell("x = 1\nx", "a", outputs=[OUTPUT]),
    cell("y = 2", "b"),
)


class Desk:
    """A folder with a service on its notebooks."""

    def __init__(self, root, running=""):
        self.root = root
        self.running = running
        self.proposed = []
        self.conflicts: list[tuple] = []
        backend = NotebookFiles(LocalFiles(Roots([str(root)])), self.tell_running, self.propose)
        self.service = FileService(
            backend,
            observe=lambda _event: None,
            conflict=lambda *both: self.conflicts.append(both),
        )

    async def tell_running(self):
        return self.running

    def propose(self, cells):
        self.proposed.append([(cell.language, cell.source) for cell in cells])

    async def read(self, name, **params):
        path = str(self.root / name)
        return (await self.service.read_text_file({"path": path, **params}))["content"]

    async def write(self, name, text):
        params = {"path": str(self.root / name), "content": text}
        await self.service.write_text_file(params)


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


# -- reading -------------------------------------------------------------------------------------


async def test_a_notebook_is_read_as_the_json_that_it_is_unless_its_text_is_asked_for(desk):
    (desk.root / "a.ipynb").write_text(SAMPLE)
    assert await desk.read("a.ipynb") == SAMPLE
    asked = {"_meta": {"acp-jupyter": {"notebook": "text"}}}
    text = await desk.read("a.ipynb", **asked)
    assert text == (
        "# %% [markdown] id=m\n# Title\ntext\n\n# %% [code] id=a\nx = 1\nx\n\n"
        "# %% [code] id=b\ny = 2\n"
    )
    assert await desk.read("a.ipynb", line=2, limit=2, **asked) == "# Title\ntext\n"
    (desk.root / "plain.txt").write_text("as it is")
    assert await desk.read("plain.txt", **asked) == "as it is"


@pytest.mark.parametrize("meta", [None, [], {"acp-jupyter": "text"}, {"acp-jupyter": {}}, 7])
async def test_meta_of_another_form_asks_for_nothing(desk, meta):
    (desk.root / "a.ipynb").write_text(SAMPLE)
    assert await desk.read("a.ipynb", _meta=meta) == SAMPLE


async def test_a_broken_notebook_is_read_as_it_is_so_that_it_can_be_mended(desk):
    (desk.root / "a.ipynb").write_text("{broken")
    assert await desk.read("a.ipynb") == "{broken"
    await desk.write("a.ipynb", SAMPLE)
    assert await desk.read("a.ipynb") == SAMPLE


# -- writing -------------------------------------------------------------------------------------


async def test_a_valid_notebook_is_written_as_it_was_sent(desk):
    await desk.write("new/a.ipynb", SAMPLE)
    assert (desk.root / "new/a.ipynb").read_text() == SAMPLE


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "valid JSON"),
        ("[]", "list of cells"),
        ('{"cells": {}}', "list of cells"),
        (notebook({"cell_type": "code", "id": "a"}), "no valid notebook"),
        (notebook(cell("x", "a b c!")), "no valid notebook"),
        (notebook(cell("x", 7)), "no valid notebook"),
        (notebook("x"), "no valid notebook"),
        (SAMPLE.replace('"nbformat": 4', '"nbformat": 3'), "no valid notebook"),
        (SAMPLE.replace('"nbformat": 4', '"nbformat": "4"'), "no valid notebook"),
        ("[" * 100_000, "valid JSON"),
    ],
)
async def test_what_is_no_valid_notebook_is_not_written(desk, text, why):
    (desk.root / "a.ipynb").write_text(SAMPLE)
    with pytest.raises(Refusal, match=why):
        await desk.write("a.ipynb", text)
    assert (desk.root / "a.ipynb").read_text() == SAMPLE
    with pytest.raises(Refusal, match=why):
        await desk.write("b.ipynb", text)
    assert os.listdir(desk.root) == ["a.ipynb"]


def test_cells_keep_their_ids_and_get_one_where_they_have_none():
    sent = notebook(
        cell("x = 1\nx"), cell("new"), cell("y = 2", "b"), cell("twice", "b"), cell("x = 1\nx")
    )
    written = json.loads(checked(sent, SAMPLE))
    nbformat.validate(written)
    ids = [each["id"] for each in written["cells"]]
    assert ids[0] == "a"
    assert ids[2] == "b"
    assert len(set(ids)) == 5


def test_a_format_without_ids_gets_none():
    sent = notebook(cell("x"), minor=4)
    assert checked(sent, SAMPLE) == sent


def test_nothing_that_is_written_makes_a_notebook_trusted():
    forged = cell("x", "a", outputs=[OUTPUT]) | {"metadata": {"trusted": True, "tags": ["kept"]}}
    written = json.loads(checked(notebook(forged, signature="sha256:forged"), None))
    assert written["cells"][0]["metadata"] == {"tags": ["kept"]}
    assert written["metadata"] == {}
    assert written["cells"][0]["outputs"][0]["data"]["text/html"] == ["<b>output</b>"]


async def test_f36_a_notebook_that_changed_is_not_written(desk):
    (desk.root / "a.ipynb").write_text(SAMPLE)
    await desk.read("a.ipynb")
    newer = notebook(cell("newer", "a"))
    (desk.root / "a.ipynb").write_text(newer)
    with pytest.raises(Changed):
        await desk.write("a.ipynb", notebook(cell("agent's", "a")))
    assert (desk.root / "a.ipynb").read_text() == newer
    assert desk.conflicts[0][1] == newer


# -- the one that runs ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["run.ipynb", "same.ipynb"])
async def test_a_change_of_the_running_notebook_becomes_proposed_cells(desk, name):
    running = desk.root / "run.ipynb"
    running.write_text(SAMPLE)
    os.link(running, desk.root / "same.ipynb")  # another name of the same file
    desk.running = str(running)
    sent = notebook(
        cell("# Title\ntext", "m", "markdown"), cell("x = 3", "a"), cell("z\n", "c"), cell("", "d")
    )
    with pytest.raises(Refusal, match="2 new or changed cells were proposed") as refusal:
        await desk.write(name, sent)
    assert refusal.value.code == ErrorCode.INVALID_PARAMS
    assert desk.proposed == [[("python", "x = 3"), ("python", "z")]]
    assert running.read_text() == SAMPLE


async def test_other_notebooks_and_files_beside_the_running_one_are_written(desk):
    desk.running = str(desk.root / "run.ipynb")
    await desk.write("other.ipynb", SAMPLE)
    await desk.write("run.py", "x = 1\n")
    assert desk.proposed == []


async def test_nothing_is_proposed_where_no_cell_is_new(desk):
    (desk.root / "run.ipynb").write_text(SAMPLE)
    desk.running = str(desk.root / "run.ipynb")
    for sent in (SAMPLE, notebook(cell("y = 2", "b"))):
        with pytest.raises(Refusal, match="no new or changed cells"):
            await desk.write("run.ipynb", sent)
    with pytest.raises(Refusal, match="valid JSON"):
        await desk.write("run.ipynb", "{")
    assert desk.proposed == []


def test_proposed_are_the_cells_that_differ_whatever_their_outputs_and_ids():
    after = notebook(
        cell("# Title\ntext", "other", "markdown"),
        cell("x = 1\nx", "a", execution_count=7),
        cell("note", "n", "markdown"),
        language_info={"name": "R"},
    )
    found = proposal(SAMPLE, after)
    assert [(each.language, each.source) for each in found.cells] == [("markdown", "note")]
    assert found.removed == 0
    assert proposal(SAMPLE, notebook()).removed == 3


def test_the_text_of_strange_notebooks_is_made_all_the_same():
    strange = notebook({"cell_type": 1}, {"source": [1, "a"]}, {"id": [], "source": {}}, 7)
    assert as_text(strange) == "# %% [1]\n\n\n# %% [None]\na\n\n# %% [None]\n\n"
    with pytest.raises(Refusal):
        as_text("{}")


async def test_cells_that_cannot_be_proposed_are_told_to_the_agent(desk):
    def refuse(_cells):
        raise UsageError("there is no cell that could be proposed")

    (desk.root / "run.ipynb").write_text(SAMPLE)
    desk.running = str(desk.root / "run.ipynb")
    desk.service._backend._propose = refuse
    with pytest.raises(Refusal, match="too long to be proposed"):
        await desk.write("run.ipynb", notebook(cell("new", "n")))
