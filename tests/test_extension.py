"""``%load_ext acp_jupyter`` in a plain Python kernel, over its sockets as a frontend meets it."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from acp_jupyter.host.displays import CELLS, DISPLAYS
from tests.bench.kernels import PLAIN, process_family
from tests.conftest import alive, wait_until
from tests.live_kernel import Cell, LiveKernel, as_server, live_kernel
from tests.scripted import Script
from tests.test_comm_tap import Page

LAZY = {"trio", "msgspec", "ipywidgets", "pandas", "matplotlib", "markdown_it", "nh3"}
"""Loaded when they are first used, not with the extension."""


@pytest.fixture(scope="module")
def plain_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    with live_kernel(tmp_path_factory.mktemp("plain"), name=PLAIN) as running:
        yield running


@pytest.fixture
def kernel(plain_kernel: LiveKernel) -> LiveKernel:
    """A Python kernel that a program started: no widgets; stdin where a cell allows it."""
    plain_kernel.run("%load_ext acp_jupyter").expect_ok()
    plain_kernel.run("%acp connect demo").expect_ok()
    return plain_kernel


@pytest.fixture(scope="module")
def served_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    home = tmp_path_factory.mktemp("served")
    with live_kernel(home, name=PLAIN, **as_server(home)) as running:
        running.run("%load_ext acp_jupyter").expect_ok()
        yield running


@pytest.fixture
def served(served_kernel: LiveKernel) -> LiveKernel:
    """A Python kernel as a Jupyter server starts it: its frontends show widgets."""
    served_kernel.run("%acp connect demo").expect_ok()
    return served_kernel


@pytest.fixture(params=["main shell", "subshell"])
def subshell(request: pytest.FixtureRequest, served: LiveKernel) -> Iterator[str | None]:
    """Where clicks are sent: ``None`` for the main shell, else the id of a subshell."""
    if request.param == "main shell":
        yield None
        return
    yield from a_subshell(served)


def a_subshell(kernel: LiveKernel) -> Iterator[str]:
    ident = kernel.request("create_subshell_request", {}, channel="control")["subshell_id"]
    yield ident
    kernel.request("delete_subshell_request", {"subshell_id": ident}, channel="control")


@pytest.fixture
def other_shell(kernel: LiveKernel) -> Iterator[dict[str, str]]:
    """The header fields of cells that run beside the main thread's."""
    for ident in a_subshell(kernel):
        yield {"subshell_id": ident}


def value(kernel: LiveKernel, expression: str) -> Any:
    """What an expression gives in the kernel, by way of JSON."""
    cell = kernel.run(f"import json as _json\nprint(_json.dumps({expression}))").expect_ok()
    assert cell.contents("stream"), cell.text
    return json.loads("".join(content["text"] for content in cell.contents("stream")))


def start_turn(kernel: LiveKernel, code: str, shown: str) -> Cell:
    """Send a cell and wait until its output holds a text."""
    cell = kernel.start(code)
    kernel.read(lambda: shown in cell.text or cell.done)
    assert not cell.done, cell.text
    return cell


def agents(kernel: LiveKernel) -> list[int]:
    return [
        process.pid
        for process in process_family(kernel.process)
        if process.cmdline()[1:] == ["-P", "-m", "acp_jupyter.demo_agent"]  # not its guard
    ]


# -- loading ------------------------------------------------------------------------------------


def test_loading_imports_nothing_that_is_only_needed_later(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    home = tmp_path_factory.mktemp("imports")
    with live_kernel(home, name=PLAIN) as kernel:
        before = set(value(kernel, "list(__import__('sys').modules)"))
        kernel.run("%load_ext acp_jupyter").expect_ok()
        kernel.run("import acp_jupyter").expect_ok()
        loaded = set(value(kernel, "list(__import__('sys').modules)")) - before
        assert "acp_jupyter.magics" in loaded
        assert not loaded & LAZY
        kernel.run("%acp help").expect_ok()
        names = set(value(kernel, "[t.name for t in __import__('threading').enumerate()]"))
        assert "acp-jupyter" not in names, "no thread before the first agent"


def test_a_second_load_changes_nothing(kernel: LiveKernel) -> None:
    running = agents(kernel)
    assert len(running) == 1
    kernel.run("%load_ext acp_jupyter").expect_ok()
    kernel.run("import acp_jupyter\nacp_jupyter.load_ipython_extension(get_ipython())").expect_ok()
    assert agents(kernel) == running
    assert "You said" in kernel.run("%%acp\nhello").expect_ok().text


def test_a_reload_starts_afresh_and_leaves_no_agent_behind(kernel: LiveKernel) -> None:
    (running,) = agents(kernel)
    kernel.run("%reload_ext acp_jupyter").expect_ok()
    assert not alive(running)
    kernel.run("%%acp\nhello").expect_error("UsageError")  # nothing is connected
    kernel.run("%acp connect demo").expect_ok()
    assert "You said" in kernel.run("%%acp\nhello").expect_ok().text


def test_unloading_takes_all_away_and_loading_brings_it_back(kernel: LiveKernel) -> None:
    (running,) = agents(kernel)
    kernel.run("%unload_ext acp_jupyter").expect_ok()
    assert not alive(running)
    names = value(kernel, "[t.name for t in __import__('threading').enumerate()]")
    assert "acp-jupyter" not in names
    assert "not found" in kernel.run("%acp").text
    assert not value(kernel, "[name for name in vars(get_ipython()) if 'acp' in name]")
    kernel.run("%load_ext acp_jupyter").expect_ok()
    kernel.run("%acp connect demo").expect_ok()
    assert "You said" in kernel.run("%%acp\nhello").expect_ok().text


def test_outside_a_kernel_the_extension_says_where_it_belongs() -> None:
    code = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "import acp_jupyter\n"
        "acp_jupyter.load_ipython_extension(InteractiveShell.instance())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "acp_jupyter.connect" in done.stderr


def test_a_restarted_kernel_begins_without_agents_and_none_is_left_from_before(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with live_kernel(tmp_path_factory.mktemp("restart"), name=PLAIN) as kernel:
        kernel.run("%load_ext acp_jupyter\n%acp connect demo").expect_ok()
        (running,) = agents(kernel)
        kernel.manager.shutdown_kernel()
        wait_until(lambda: not alive(running))


# -- cells --------------------------------------------------------------------------------------


def test_a_cell_streams_into_one_output(kernel: LiveKernel) -> None:
    cell = start_turn(kernel, "%%acp\nslow 10; hello", "Step 2 of 10.")
    kernel.finish(cell).expect_ok()
    kinds = {message["msg_type"] for message in cell.published}
    assert "update_display_data" in kinds
    assert "execute_result" not in kinds
    assert "Step 10 of 10." in cell.text
    assert cell.text.count("You said") == 1


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--outt turn", "Did you mean --out?"),
        ("--timeout soon", "invalid float"),
        ("please", "unrecognized"),
        ("--session reviewer", "reviewer"),
        ("--out 1st", "no name of a variable"),
        ("--out class", "no name of a variable"),
        ("--timeout 0", "more than 0"),
        ("--budget -1", "more than 0"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_sent(
    kernel: LiveKernel, line: str, words: str
) -> None:
    cell = kernel.run(f"%%acp {line}\nwrite refused.txt: x").expect_error("UsageError")
    assert words in cell.text
    assert "Permission" not in cell.text
    assert "slip" not in cell.text


def test_the_options_document_themselves(kernel: LiveKernel) -> None:
    payload = kernel.run("%%acp?").expect_ok().reply["payload"]
    text = payload[0]["data"]["text/plain"]
    for option in ("--session", "--out", "--timeout", "--budget", "--tokens"):
        assert option in text


def test_out_gives_the_turn_as_an_object_and_shows_nothing_twice(kernel: LiveKernel) -> None:
    cell = kernel.run("%%acp --out turn\nhello; plan A, B").expect_ok()
    assert cell.text.count("You said") == 1
    found = value(
        kernel,
        "[type(turn).__module__, turn.number > 0, turn.stop_reason, 'You said' in turn.text,"
        " len(turn.plan), turn is __import__('acp_jupyter').Turn]",
    )
    assert found == ["acp_jupyter.api.turn", True, "end_turn", True, 2, False]
    assert value(kernel, "isinstance(turn, __import__('acp_jupyter').Turn)")
    shown = kernel.run("turn").expect_ok()
    assert "You said" in shown.outputs[0]["text/html"]
    assert "You said" in shown.text


def test_out_also_gives_a_turn_that_failed(kernel: LiveKernel) -> None:
    kernel.run("%%acp --out failed\nhello; fail").expect_error("RequestError")
    assert value(kernel, "[failed.stop_reason, bool(failed.error)]") == [None, True]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--timeout 0.3", "limit of 0.3 s"),
        ("--tokens 1", "the limit is 1"),
        ("--budget 0.0000001", "USD, the limit is 1e-07"),
    ],
)
def test_a_turn_beyond_its_limit_is_cancelled_and_says_so(
    kernel: LiveKernel, line: str, words: str
) -> None:
    cell = kernel.run(f"%%acp {line} --out turn\nhello; usage; slow 600")
    cell.expect_error("TurnCancelled")
    assert words in cell.text
    assert value(kernel, "turn.stop_reason") == "cancelled"
    assert "You said" in kernel.run("%%acp\nhello").expect_ok().text


def test_two_agents_by_name_are_asked_each_by_its_name(kernel: LiveKernel) -> None:
    kernel.run("%acp connect demo --as review").expect_ok()
    kernel.run("%%acp --session review --out theirs\nhello from review").expect_ok()
    kernel.run("%%acp --out ours\nhello from here").expect_ok()
    assert len(agents(kernel)) == 2
    assert "review" in kernel.run("%acp").expect_ok().text
    kernel.run("%acp disconnect --as review").expect_ok()
    assert len(agents(kernel)) == 1


# -- what is the user's stays the user's --------------------------------------------------------


def test_an_interrupt_cancels_the_turn_and_not_the_kernel(kernel: LiveKernel) -> None:
    kernel.run("kept = object(); kept_id = id(kept)").expect_ok()
    cell = start_turn(kernel, "%%acp --out turn\nslow 600", "Step 2 of 600.")
    kernel.interrupt()
    kernel.finish(cell).expect_error("TurnCancelled")
    assert "Cancelled" in cell.text
    assert value(kernel, "[turn.stop_reason, id(kept) == kept_id]") == ["cancelled", True]
    handler = value(kernel, "repr(__import__('signal').getsignal(2))")
    assert "default_int_handler" in handler, "the user's own cells raise KeyboardInterrupt"
    looping = kernel.start("print('on')\nwhile True: pass")
    kernel.read(lambda: "on" in looping.text)
    kernel.interrupt()
    kernel.finish(looping).expect_error("KeyboardInterrupt")


def test_cells_leave_no_names_behind(kernel: LiveKernel) -> None:
    names = "sorted(name for name in globals() if not name.startswith('_'))"
    before = value(kernel, names)
    kernel.run("%%acp\nhello").expect_ok()
    kernel.run("%%acp --out mine\nhello").expect_ok()
    assert sorted(set(value(kernel, names)) - set(before)) == ["mine"]
    kernel.run("del mine").expect_ok()


def test_tasks_and_the_event_loop_outlive_cells_and_interrupts(kernel: LiveKernel) -> None:
    kernel.run(
        "import asyncio\nticks = 0\nloop = asyncio.get_running_loop()\n"
        "async def tick():\n    global ticks\n    while True:\n"
        "        ticks += 1\n        await asyncio.sleep(0.01)\n"
        "task = asyncio.create_task(tick())\n"
    ).expect_ok()
    kernel.run("%%acp\nslow 2").expect_ok()
    cell = start_turn(kernel, "%%acp\nslow 600", "Step 2 of 600.")
    kernel.interrupt()
    kernel.finish(cell).expect_error("TurnCancelled")
    seen = value(kernel, "ticks")
    kernel.run("while ticks <= " + str(seen + 3) + ": await asyncio.sleep(0.01)").expect_ok()
    state = value(kernel, "[task.done(), loop is asyncio.get_running_loop(), task.cancel()]")
    assert state == [False, True, True]


def test_matplotlib_keeps_its_backend_and_its_figures(kernel: LiveKernel) -> None:
    kernel.run(
        "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.ioff()\n"
        "figure = plt.figure(); backend = plt.get_backend()"
    ).expect_ok()
    kernel.run("%%acp\nshow image").expect_ok()
    state = value(kernel, "[plt.get_backend() == backend, plt.isinteractive()]")
    assert state == [True, False]


def test_two_cells_at_once_are_not_mixed_up(
    kernel: LiveKernel, other_shell: dict[str, str]
) -> None:
    first = start_turn(kernel, "%%acp\nslow 600", "Step 2 of 600.")
    second = kernel.finish(kernel.start("%%acp --out late\nhello", header=other_shell))
    second.expect_error("TurnRunning")
    assert not first.done
    kernel.interrupt()
    kernel.finish(first).expect_error("TurnCancelled")
    assert value(kernel, "'late' in globals()") is False


def test_a_queued_prompt_follows_in_the_cell_that_runs(
    kernel: LiveKernel, other_shell: dict[str, str]
) -> None:
    first = start_turn(kernel, "%%acp\nslow 30", "Step 2 of 30.")
    queued = kernel.finish(kernel.start("%acp queue count 4", header=other_shell))
    assert "Queued as number 1." in queued.expect_ok().text
    listed = kernel.finish(kernel.start("%acp queue", header=other_shell))
    assert "1. count 4" in listed.expect_ok().text
    text = kernel.finish(first).expect_ok().text
    assert text.index("Step 30 of 30.") < text.index("1 2 3 4")
    assert "Nothing is queued." in kernel.run("%acp queue").expect_ok().text


def test_what_is_queued_behind_a_cancelled_turn_is_not_sent(
    kernel: LiveKernel, other_shell: dict[str, str]
) -> None:
    first = start_turn(kernel, "%%acp\nslow 600", "Step 2 of 600.")
    kernel.finish(kernel.start("%acp queue count 4", header=other_shell)).expect_ok()
    kernel.interrupt()
    cell = kernel.finish(first)
    cell.expect_error("TurnCancelled")
    assert "1 queued prompts were not sent." in cell.text
    assert "1 2 3 4" not in cell.text
    refused = kernel.run("%acp queue x").expect_error("UsageError")
    assert "no prompt is running" in refused.reply["evalue"]


def test_a_budget_of_the_notebook_counts_all_its_turns(kernel: LiveKernel) -> None:
    kernel.run("%acp connect demo").expect_ok()
    kernel.run("%acp budget --cost 0.001").expect_ok()
    cell = kernel.run("%%acp\ntext 400")
    for _ in range(20):
        if cell.reply["status"] == "error":
            break
        cell = kernel.run("%%acp\ntext 400")
    assert "budget of cost is spent" in cell.text or "the limit is" in cell.text
    assert "of 0.001" in kernel.run("%acp budget").expect_ok().text
    kernel.run("%acp budget off").expect_ok()
    kernel.run("%%acp\nhello").expect_ok()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("%%acp\nuse @df", "@df_long"),
        ("%%acp\n/pla", "/plan"),
        ("%acp conn", "connect"),
        ("%%acp\nread @note", "@note.txt"),
    ],
)
def test_tab_completes_mentions_commands_and_magics(
    kernel: LiveKernel, code: str, expected: str
) -> None:
    (kernel.cwd / "note.txt").write_text("x")
    kernel.run("df_long = 1\n").expect_ok()
    kernel.run("%acp connect demo").expect_ok()
    reply = kernel.request("complete_request", {"code": code, "cursor_pos": len(code)})
    assert expected in reply["matches"]
    assert not any("=" in match for match in reply["matches"])


def test_tab_completes_python_as_ever(kernel: LiveKernel) -> None:
    kernel.run("df_long = 1").expect_ok()
    reply = kernel.request("complete_request", {"code": "df_long.bit_c", "cursor_pos": 13})
    assert "bit_count" in "".join(reply["matches"])


def blocks_sent(kernel: LiveKernel, made: Script, prompt: str) -> list[dict[str, Any]]:
    """The content blocks of a prompt, as the agent got them."""
    kernel.run(f"%%acp\n{prompt}").expect_ok()
    sent: list[dict[str, Any]] = made.received("session/prompt")[-1]["params"]["prompt"]
    return sent


def test_a_cell_goes_with_the_plots_and_displays_that_it_showed(
    kernel: LiveKernel, script: Callable[..., Script]
) -> None:
    made = script(capabilities={"promptCapabilities": {"image": True}})
    kernel.run(f"%acp connect -- {shlex.join(made.argv)}").expect_ok()
    kernel.run(
        "%matplotlib inline\nimport matplotlib.pyplot as plt\nfrom IPython import display as d\n"
        "d.display('by display'); handle = d.display('at first', display_id=True)\n"
        "plt.close('all'); plt.plot([1, 2]); plt.show(); handle.update(d.Pretty('in the end'))"
    ).expect_ok()
    prompt, text, picture = blocks_sent(kernel, made, "Why @cell:-1")
    assert prompt["text"] == "Why @cell:-1"
    output = str(text).partition("Output:")[2]
    assert "by display" in output
    assert "in the end" in output
    assert "at first" not in output
    assert (picture["type"], picture["mimeType"]) == ("image", "image/png")


def test_what_a_cell_cleared_or_nobody_saw_is_not_sent(
    kernel: LiveKernel, script: Callable[..., Script]
) -> None:
    made = script()
    kernel.run(f"%acp connect -- {shlex.join(made.argv)}").expect_ok()
    kernel.run(
        "from IPython.display import clear_output, display\n"
        "for step in 'abc':\n    clear_output(wait=True); display('step ' + step)\n"
    ).expect_ok()
    kernel.run("display('never counted')", store_history=False).expect_ok()
    sent = str(blocks_sent(kernel, made, "@cell:-1"))
    assert "step c" in sent
    assert "step a'\n" not in sent
    assert "step b'\n" not in sent
    assert "never counted" not in sent


def test_displays_are_kept_of_a_bounded_number_of_cells(kernel: LiveKernel) -> None:
    host = "get_ipython()._acp_jupyter_host"
    for number in range(CELLS + 5):
        kernel.run(f"display({number})").expect_ok()
    kernel.run(f"for number in range({DISPLAYS + 5}): display(number)").expect_ok()
    kept = value(kernel, f"[len({host}.displays._cells), len({host}.displays._cells[-1].shown)]")
    assert kept == [CELLS, DISPLAYS]


def test_agents_of_two_names_run_at_once(kernel: LiveKernel, other_shell: dict[str, str]) -> None:
    kernel.run("%acp connect demo --as second").expect_ok()
    first = start_turn(kernel, "%%acp\nslow 600", "Step 2 of 600.")
    beside = kernel.finish(
        kernel.start("%%acp --session second\nhello beside", header=other_shell)
    ).expect_ok()
    assert "hello beside" in beside.text
    assert "hello beside" not in first.text
    assert not first.done
    kernel.interrupt()
    kernel.finish(first).expect_error("TurnCancelled")
    kernel.run("%acp disconnect --as second").expect_ok()


# -- questions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "words"), [("1", "Allowed once by you"), ("n", "Denied")])
def test_a_question_is_asked_on_stdin_where_no_widgets_are_shown(
    kernel: LiveKernel, answer: str, words: str
) -> None:
    path = kernel.cwd / "stdin.txt"
    path.unlink(missing_ok=True)
    cell = kernel.run("%%acp\nwrite stdin.txt: x", answers=[answer]).expect_ok()
    assert "Write stdin.txt" in cell.questions[0]
    assert words in cell.text
    assert path.exists() is (answer == "1")


def test_where_nobody_can_be_asked_the_answer_is_no(kernel: LiveKernel) -> None:
    cell = kernel.run("%%acp\nwrite nobody.txt: x").expect_ok()
    assert "Denied" in cell.text
    assert not (kernel.cwd / "nobody.txt").exists()


def test_a_click_is_answered_while_the_main_thread_waits(
    served: LiveKernel, subshell: str | None
) -> None:
    name = f"clicked-{subshell}.txt"
    cell = served.start(f"%%acp\nwrite {name}: yes")
    page = Page(served, cell, subshell)
    page.wait_for_buttons()
    page.tell_shown()
    ident = page.click(page.buttons()["Allow once"])
    served.finish(cell).expect_ok()
    served.read(lambda: "idle" in page.statuses(ident))
    assert "Allowed once by you" in cell.text
    assert (served.cwd / name).read_text() == "yes"
    assert page.models == {}


def test_an_interrupt_withdraws_the_question(served: LiveKernel, subshell: str | None) -> None:
    cell = served.start("%%acp\nwrite withdrawn.txt: yes")
    page = Page(served, cell, subshell)
    page.wait_for_buttons()
    page.tell_shown()
    served.interrupt()
    served.finish(cell).expect_error("TurnCancelled")
    assert page.models == {}
    assert not (served.cwd / "withdrawn.txt").exists()
    assert "You said" in served.run("%%acp\nhello").expect_ok().text


def test_the_users_own_widgets_work_as_ever_and_after_unloading(served: LiveKernel) -> None:
    served.run(
        "import ipywidgets\nclicks = []\nbutton = ipywidgets.Button()\n"
        "button.on_click(lambda _: clicks.append(1))"
    ).expect_ok()
    comm_id = value(served, "button.comm.comm_id")
    data = {"method": "custom", "content": {"event": "click"}}
    for count in (1, 2):
        served.send("shell", "comm_msg", {"comm_id": comm_id, "data": data})
        assert any(value(served, "len(clicks)") == count for _ in range(40))
        served.run("%unload_ext acp_jupyter").expect_ok()
    served.run("%load_ext acp_jupyter\n%acp connect demo\nbutton.close()").expect_ok()


# -- the Python API in a notebook ---------------------------------------------------------------


def test_the_api_asks_in_the_cell_that_prompts(served: LiveKernel) -> None:
    served.run(
        "import acp_jupyter as acp\nagent = acp.connect('demo')\nsession = agent.new_session()"
    ).expect_ok()
    cell = served.start("turn = session.prompt('hello; write api.txt: x')")
    page = Page(served, cell)
    page.wait_for_buttons()
    page.tell_shown()
    page.click(page.buttons()["Allow once"])
    served.finish(cell).expect_ok()
    kinds = {"display_data", "execute_result", "stream"}
    shown_kinds = [m["msg_type"] for m in cell.published if m["msg_type"] in kinds]
    assert shown_kinds == ["display_data"], "the question and nothing else: results are objects"
    assert "Allowed once by you" in cell.text
    assert value(served, "[turn.permissions[0].state, turn.stop_reason]") == ["allowed", "end_turn"]
    shown = served.run("shown = session.prompt('hello', show=True)").expect_ok()
    assert "You said" in shown.text
    served.run("agent.close()").expect_ok()


def test_the_api_works_without_loading_the_extension(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with live_kernel(tmp_path_factory.mktemp("bare"), name=PLAIN) as kernel:
        kernel.run("import acp_jupyter as acp\nagent = acp.connect('demo')").expect_ok()
        cell = kernel.run("(await (await agent.anew_session()).aprompt('hello'))").expect_ok()
        assert "You said" in cell.text
        kernel.run("%load_ext acp_jupyter\n%acp connect demo").expect_ok()
        assert "You said" in kernel.run("%%acp\nhello").expect_ok().text
        assert value(kernel, "agent.alive")
        kernel.run("agent.close()").expect_ok()
        assert len(agents(kernel)) == 1


def test_an_interrupt_of_a_cell_that_awaits_cancels_the_turn(kernel: LiveKernel) -> None:
    kernel.run(
        "import acp_jupyter as acp\nagent = acp.connect('demo')\nsession = agent.new_session()"
    ).expect_ok()
    cell = start_turn(kernel, "await session.aprompt('slow 600', show=True)", "Step 2 of 600.")
    kernel.interrupt()
    kernel.finish(cell)
    assert cell.reply["status"] == "error"
    assert value(kernel, "[turn.stop_reason for turn in session.turns]") == ["cancelled"]
    assert value(kernel, "(await session.aprompt('hello')).stop_reason") == "end_turn"
    kernel.run("agent.close()").expect_ok()
