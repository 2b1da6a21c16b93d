"""Clicks that arrive while the cell runs, on every minor version of ipykernel 7 that there is.

The test does what a frontend does with widgets: it sees the comms that the kernel opens, lets the
beacon tell that the question is shown, clicks a button, and loads the page anew.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
import trio

from acp_jupyter.questions import widget
from acp_jupyter.questions.comms import CommTap
from acp_jupyter.questions.view import VIEW
from acp_jupyter.questions.widget import WidgetAsker
from acp_jupyter.services.permissions import CannotAsk
from acp_jupyter.session.transcript import PermissionChoice, PermissionEntry
from tests.live_kernel import Cell, LiveKernel, Message, as_server, live_kernel
from tests.live_page import LivePage

INSTALLED = importlib.metadata.version("ipykernel")
LAST_OF_MINORS = ["7.0.1", "7.1.0", "7.2.0", "7.3.0", "7.4.0"]
OTHERS = [
    version
    for version in LAST_OF_MINORS
    if version.rsplit(".", 1)[0] != INSTALLED.rsplit(".", 1)[0]
]
QUESTION_LIMIT = 20.0


def _ipykernel(version: str, cache: pytest.Cache) -> list[str]:
    """Directories that put this version of ipykernel before the installed one."""
    if version == INSTALLED:
        return []
    target = cache.mkdir("ipykernel") / version
    if not (target / "ipykernel" / "kernelbase.py").exists():
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
        command += ["install", "-qq", "--no-deps", "--target", str(target), f"ipykernel=={version}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode:
            pytest.skip(f"pip offers no ipykernel {version} here: {done.stderr[-300:]}")
    return [str(target)]


@pytest.fixture(scope="module", params=[INSTALLED, *OTHERS])
def kernel(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveKernel]:
    """A kernel as a Jupyter server starts it, for each version."""
    assert request.config.cache is not None
    path = _ipykernel(request.param, request.config.cache)
    home = tmp_path_factory.mktemp("tap")
    with live_kernel(home, python_path=path, **as_server(home)) as running:
        code = "%%python\nimport ipykernel\nprint(ipykernel.__version__)"
        assert running.run(code).text.strip() == request.param
        running.run("%acp connect demo").expect_ok()
        yield running


class Page:
    """The widgets of one running cell, as a page in a browser has them."""

    def __init__(self, kernel: LiveKernel, cell: Cell, subshell: str | None = None) -> None:
        self._kernel = kernel
        self._cell = cell
        self._header = {} if subshell is None else {"subshell_id": subshell}
        self._mark = len(kernel.seen)

    @property
    def models(self) -> dict[str, dict[str, Any]]:
        """State by comm id of the models that the cell has opened and not closed."""
        opened = {}
        for content in self._cell.contents("comm_open"):
            opened[content["comm_id"]] = content["data"]["state"]
        for content in self._cell.contents("comm_close"):
            opened.pop(content["comm_id"], None)
        return opened

    def ids(self, model: str) -> list[str]:
        return [key for key, state in self.models.items() if state["_model_name"] == model]

    def buttons(self) -> dict[str, str]:
        """Comm id by label."""
        return {self.models[key]["description"]: key for key in self.ids("ButtonModel")}

    def wait_for_buttons(self, count: int = 1) -> None:
        """Until the output that shows ``count`` questions has been published."""

        def views() -> int:
            return len(
                {
                    data["data"][VIEW]["model_id"]
                    for kind in ("display_data", "update_display_data")
                    for data in self._cell.contents(kind)
                    if VIEW in data["data"]
                }
            )

        self._kernel.read(lambda: views() >= count, QUESTION_LIMIT)

    def send(self, comm_id: str, data: dict[str, Any]) -> str:
        content = {"comm_id": comm_id, "data": data}
        return self._kernel.send("shell", "comm_msg", content, header=self._header)

    def tell_shown(self) -> None:
        """What the counter in the widget sends as soon as a page shows it."""
        for key in self.ids("PlayModel"):
            self.send(key, {"method": "update", "state": {"value": 1}, "buffer_paths": []})

    def click(self, comm_id: str) -> str:
        return self.send(comm_id, {"method": "custom", "content": {"event": "click"}})

    def statuses(self, ident: str) -> list[str]:
        """The kernel's states published for a message: widgets go on after busy and idle only."""
        return [
            m["content"]["execution_state"]
            for m in self._kernel.seen
            if m["msg_type"] == "status" and m["parent_header"].get("msg_id") == ident
        ]


@pytest.fixture(params=["main shell", "subshell"])
def subshell(request: pytest.FixtureRequest, kernel: LiveKernel) -> Iterator[str | None]:
    """``None`` for a client without subshells, else the id of one, as JupyterLab makes it."""
    if request.param == "main shell":
        yield None
        return
    ident = kernel.request("create_subshell_request", {}, channel="control")["subshell_id"]
    yield ident
    kernel.request("delete_subshell_request", {"subshell_id": ident}, channel="control")


def _ask(kernel: LiveKernel, name: str, subshell: str | None) -> tuple[Cell, Page]:
    cell = kernel.start(f"write {name}: yes")
    page = Page(kernel, cell, subshell)
    page.wait_for_buttons()
    page.tell_shown()
    return cell, page


def test_a_click_on_allow_arrives_while_the_cell_runs(
    kernel: LiveKernel, subshell: str | None
) -> None:
    cell, page = _ask(kernel, f"allowed-{subshell}.txt", subshell)
    buttons = page.buttons()
    assert next(iter(buttons)) == "Allow once"
    ident = page.click(buttons["Allow once"])
    kernel.finish(cell).expect_ok()
    kernel.read(lambda: "idle" in page.statuses(ident))
    assert page.statuses(ident) == ["busy", "idle"]
    assert (kernel.cwd / f"allowed-{subshell}.txt").read_text() == "yes"
    assert "Allowed once by you" in cell.text
    assert page.models == {}, "the buttons are gone"
    assert not any(VIEW in data for data in cell.outputs), "and what is saved is static"


def test_a_click_on_deny_denies(kernel: LiveKernel, subshell: str | None) -> None:
    cell, page = _ask(kernel, f"denied-{subshell}.txt", subshell)
    deny = next(key for label, key in page.buttons().items() if label.startswith("Deny"))
    page.click(deny)
    kernel.finish(cell).expect_ok()
    assert not (kernel.cwd / f"denied-{subshell}.txt").exists()
    assert "by you" in cell.text


def test_several_questions_at_once_each_get_their_own_answer(
    kernel: LiveKernel, subshell: str | None
) -> None:
    cell = kernel.start("permissions 2")
    page = Page(kernel, cell, subshell)
    page.wait_for_buttons(2)
    page.tell_shown()
    states = page.models
    allow = [key for key in page.ids("ButtonModel") if states[key]["description"] == "Allow once"]
    deny = [key for key in page.ids("ButtonModel") if states[key]["button_style"] == "danger"]
    assert len(allow) == 2
    page.click(deny[-1])
    page.click(allow[0])
    kernel.finish(cell).expect_ok()
    assert "Allowed once by you" in cell.text
    assert "Denied" in cell.text


def test_a_page_loaded_anew_gets_the_widgets_and_can_answer(
    kernel: LiveKernel, subshell: str | None
) -> None:
    name = f"reload-{subshell}.txt"
    cell, page = _ask(kernel, name, subshell)
    control = uuid4().hex
    kernel.send(
        "shell",
        "comm_open",
        {"comm_id": control, "target_name": "jupyter.widget.control", "data": {}},
        metadata={"version": "1.0.0"},
        header={} if subshell is None else {"subshell_id": subshell},
    )
    page.send(control, {"method": "request_states"})
    states: list[Message] = []

    def answered() -> bool:
        states[:] = [
            m
            for m in kernel.seen
            if m["msg_type"] == "comm_msg"
            and m["content"]["comm_id"] == control
            and m["content"]["data"].get("method") == "update_states"
        ]
        return bool(states)

    kernel.read(answered, QUESTION_LIMIT)
    assert set(page.ids("ButtonModel")) <= set(states[0]["content"]["data"]["states"])
    page.click(page.buttons()["Allow once"])
    kernel.finish(cell).expect_ok()
    assert (kernel.cwd / name).read_text() == "yes"


def test_a_live_page_is_told_and_answers_while_the_cell_runs(
    kernel: LiveKernel, subshell: str | None
) -> None:
    name = f"live-{subshell}.txt"
    page = LivePage(kernel, subshell)
    cell = kernel.start(f"write {name}: yes")
    question = page.wait_question()
    choice = next(c["index"] for c in question["choices"] if c["kind"] == "allow_once")
    page.ask("answer", link=page.link["key"], question=question["id"], choice=choice)
    kernel.finish(cell).expect_ok()
    assert (kernel.cwd / name).read_text() == "yes"
    page.wait_status("idle")
    page.close()


def test_an_interrupt_withdraws_the_buttons_and_a_late_click_does_nothing(
    kernel: LiveKernel, subshell: str | None
) -> None:
    name = f"late-{subshell}.txt"
    cell, page = _ask(kernel, name, subshell)
    allow = page.buttons()["Allow once"]
    kernel.interrupt()
    kernel.finish(cell).expect_error("TurnCancelled")
    assert page.models == {}
    page.click(allow)
    assert "Hello afterwards" in kernel.run("Hello afterwards").expect_ok().text
    assert not (kernel.cwd / name).exists()


def test_replies_are_sent_by_the_stream_that_reads_their_socket(kernel: LiveKernel) -> None:
    code = (
        "%%python\nmanager = get_ipython().kernel.shell_channel_thread.manager\n"
        "print(*{type(v).__name__ for k, v in vars(manager).items() if k.startswith('_shell_s')})"
    )
    assert kernel.run(code).expect_ok().text.strip() == "ZMQStream"


def test_a_double_click_answers_once(kernel: LiveKernel) -> None:
    cell, page = _ask(kernel, "double.txt", None)
    allow = page.buttons()["Allow once"]
    page.click(allow)
    page.click(allow)
    kernel.finish(cell).expect_ok()
    assert cell.text.count("Allowed once by you") == 1


@pytest.mark.parametrize(
    "data",
    [
        {"method": "custom", "content": {"event": "hover"}},
        {"method": "custom", "content": "click"},
        {"method": "custom"},
        {"method": 7},
        {},
        None,
        "click",
        ["click"],
    ],
)
def test_a_message_that_is_no_click_answers_nothing(kernel: LiveKernel, data: Any) -> None:
    cell, page = _ask(kernel, "noclick.txt", None)
    allow = page.buttons()["Allow once"]
    ident = page.send(allow, data)
    kernel.read(lambda: "idle" in page.statuses(ident))
    assert not cell.done
    deny = next(key for label, key in page.buttons().items() if label.startswith("Deny"))
    page.click(deny)
    kernel.finish(cell).expect_ok()
    assert not (kernel.cwd / "noclick.txt").exists()


def test_widgets_of_python_cells_work_as_ever(kernel: LiveKernel, subshell: str | None) -> None:
    kernel.run(
        "%%python\nimport ipywidgets\nclicks = []\nbutton = ipywidgets.Button()\n"
        "button.on_click(clicks.append)\nbutton"
    ).expect_ok()
    comm_id = kernel.run("%%python\nprint(button.comm.comm_id)").text.strip()
    header = {} if subshell is None else {"subshell_id": subshell}
    data = {"method": "custom", "content": {"event": "click"}}
    kernel.send("shell", "comm_msg", {"comm_id": comm_id, "data": data}, header=header)

    def clicked() -> bool:
        return kernel.run("%%python\nlen(clicks)").text.strip() == "1"

    _within(clicked)
    kernel.run("%%python\nbutton.close()").expect_ok()


def _within(condition: Callable[[], bool], tries: int = 40) -> None:
    assert any(condition() for _ in range(tries))


# -- without a kernel ---------------------------------------------------------------------------


def _question() -> PermissionEntry:
    options = [
        PermissionChoice("a", "Yes", "allow_once"),
        PermissionChoice("r", "No", "reject_once"),
    ]
    return PermissionEntry("e1", 1, question_id="e1", title="Write a file", options=options)


class _NoKernel:
    """What is left of a kernel where none runs: the tap registers, and nothing arrives."""


async def test_a_question_that_no_frontend_shows_goes_on_to_the_next_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import contextvars

    assert widget.SHOWN_WITHIN == 10.0
    monkeypatch.setattr(widget, "SHOWN_WITHIN", 0.05)
    shown: list[dict[str, Any]] = []
    tap = CommTap(_NoKernel())
    asker = WidgetAsker(
        tap,
        trio.lowlevel.current_trio_token().run_sync_soon,
        contextvars.copy_context(),
        cwd="",
        refresh=lambda entry: shown.append(asker.extras(entry)),
    )
    entry = _question()
    with pytest.raises(CannotAsk, match="shows no widgets"):
        await asker.ask(entry)
    assert VIEW in shown[0]
    assert asker.extras(entry) == {}


def test_a_kernel_that_the_tap_does_not_know_is_not_tapped() -> None:
    assert not CommTap.supported(_NoKernel())
