"""Agents of the kernel and their MCP servers: consent, what is sent, and the kernel as one."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from acp_jupyter.connection.portal import Portal
from acp_jupyter.host.main_thread import MainThread
from tests.kernel_client import Cell, KernelUnderTest, open_kernel
from tests.scripted import Script

PEERS = Path(__file__).with_name("mcp_peers")
SECRET = "correct-horse-battery"
RUN_S = 60.0


@pytest.fixture(scope="module")
def module_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelUnderTest]:
    home = tmp_path_factory.mktemp("kernel")
    (home / "config").mkdir(exist_ok=True)
    known = {
        "mine": {
            "command": sys.executable,
            "args": [str(PEERS / "server.py")],
            "env": {"WHO": "${MCP_TEST_WHO}"},
        },
        "far": {"type": "sse", "url": "https://mcp.example/sse"},
    }
    settings = {"ACPJupyter": {"mcp_servers": known}}
    (home / "config" / "jupyter_acp_config.json").write_text(json.dumps(settings))
    with open_kernel(home, environment={"MCP_TEST_WHO": SECRET}) as running:
        yield running


@pytest.fixture
def kernel(module_kernel: KernelUnderTest) -> Iterator[KernelUnderTest]:
    running = module_kernel.ready()
    yield running
    for cleared in ("%acp share off", "%acp permissions ask", "%acp disconnect"):
        running.run(cleared)
    for name in ("mine", "one", "two"):
        running.run(f"%acp mcp remove {name}")


def write_file(kernel: KernelUnderTest, **servers: Any) -> None:
    entries = {
        name: {"command": sys.executable, "args": args, "env": {"KEY": "${MCP_TEST_WHO}"}}
        for name, args in servers.items()
    }
    (kernel.cwd / ".mcp.json").write_text(json.dumps({"mcpServers": entries}))


def connect(kernel: KernelUnderTest, made: Script, options: str = "", **settings: Any) -> Cell:
    return kernel.run(f"%acp connect {options} -- {shlex.join(made.argv)}", limit=RUN_S, **settings)


def servers_of(made: Script, method: str = "session/new") -> list[dict[str, Any]]:
    """What the newest session was told of."""
    found: list[dict[str, Any]] = made.received(method)[-1]["params"]["mcpServers"]
    return found


def once(_prompt: str) -> str:
    return "1"


def no(_prompt: str) -> str:
    return "3"


# -- servers of others ------------------------------------------------------------------------


def test_a_configured_server_is_told_by_name_and_its_values_are_shown_nowhere(
    kernel: KernelUnderTest, script: Any
) -> None:
    def load_session(agent: Any) -> None:
        agent.text("history", "earlier")
        agent.reply({})

    made = script(capabilities={"loadSession": True}, load_session=load_session)
    listed = kernel.run("%acp mcp").ok().text
    assert "In the configuration:" in listed
    assert "mine (stdio)" in listed
    shown = connect(kernel, made, "--mcp mine").ok()
    (sent,) = servers_of(made)
    assert sent["name"] == "mine"
    assert sent["env"] == [{"name": "WHO", "value": SECRET}]
    shown_too = kernel.run("%acp sessions load earlier").ok()
    assert servers_of(made, "session/load") == [sent]
    listed = kernel.run("%acp mcp").ok().text
    assert "Agents are told of:\n  mine (stdio)" in listed
    log = kernel.run("%acp log").ok().text
    assert "session/new" in log
    assert SECRET not in shown.text + shown.html + shown_too.text + listed + log
    kernel.run("%acp mcp remove mine").ok()
    kernel.run("%acp sessions new").ok()
    assert servers_of(made) == []


def test_a_real_server_starts_as_it_is_told(kernel: KernelUnderTest, script: Any) -> None:
    made = script()
    connect(kernel, made, "--mcp mine").ok()
    (sent,) = servers_of(made)
    (heard,) = talk("auto", sent, [["who", {}]])
    assert heard["results"] == [[False, f"for {SECRET}"]]


def test_f58_a_server_of_a_file_is_asked_for_with_what_will_run(
    kernel: KernelUnderTest, script: Any
) -> None:
    write_file(kernel, one=["--first"], two=["--second"])
    made = script()
    error = connect(kernel, made, "--mcp .mcp.json:one").failed("UsageError").traceback
    assert "needs your consent" in error
    assert "was not added" in connect(kernel, made, "--mcp .mcp.json:one", answer=no).traceback
    assert made.runs == 0
    allowed = connect(kernel, made, "--mcp .mcp.json:one", answer=once).ok()
    (asked,) = allowed.asked
    assert "--first" in asked
    assert "MCP_TEST_WHO" in asked
    assert SECRET not in asked
    assert [server["args"] for server in servers_of(made)] == [["--first"]]
    connect(kernel, made, "--mcp=.mcp.json:one").ok()  # as it was allowed, unasked
    write_file(kernel, one=["--other"], two=["--second"])
    assert "needs your consent" in kernel.run("%acp mcp add .mcp.json:one").traceback
    added = kernel.run("%acp mcp add .mcp.json --yes").ok().text
    assert "Added: one, two." in added
    assert "from the next one on" in added
    kernel.run("%acp restart", limit=RUN_S).ok()
    assert [server["args"] for server in servers_of(made)] == [["--other"], ["--second"]]


def test_c24_what_the_agent_does_not_reach_is_refused_before_a_session_is_opened(
    kernel: KernelUnderTest, script: Any
) -> None:
    made = script()
    error = connect(kernel, made, "--mcp far").failed("UsageError").traceback
    assert "mcpCapabilities.sse" in error
    assert made.received("session/new") == []
    assert "told of" not in kernel.run("%acp mcp").ok().text
    connect(kernel, made).ok()
    assert "mcpCapabilities.sse" in kernel.run("%acp mcp add far").failed("UsageError").traceback
    assert "told of" not in kernel.run("%acp mcp").ok().text


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("%acp mcp add nothing", "no MCP server 'nothing'"),
        ("%acp mcp add .mcp.json:nothing", "no MCP server 'nothing'"),
        ("%acp mcp add", "takes add or remove"),
        ("%acp mcp frobnicate", "takes add or remove"),
        ("%acp mcp add x --what", "--what is no option"),
        ("%acp mcp remove nothing", "was added"),
        ("%acp share", ""),
        ("%acp share everything", "takes kernel or off"),
    ],
)
def test_words_that_are_not_understood_say_what_is(
    kernel: KernelUnderTest, command: str, words: str
) -> None:
    write_file(kernel, one=[])
    cell = kernel.run(command)
    assert words in cell.traceback
    assert bool(words) == (cell.reply["status"] == "error")


def test_python_names_servers_for_all_sessions_and_for_one(
    kernel: KernelUnderTest, script: Any
) -> None:
    made = script(capabilities={"mcpCapabilities": {"http": True}})
    code = f"""%%python
import acp_jupyter as acp
own = {{"name": "own", "url": "https://mcp.example", "headers": {{"X-Key": "{SECRET}"}}}}
with acp.connect({list(made.argv)!r}, mcp_servers=["mine"]) as agent:
    one = agent.new_session()
    two = agent.new_session(mcp_servers=[own])
    facts = agent._live.lifecycle.mcp.facts(two._live)
print([sorted(fact) for fact in facts], [fact["name"] for fact in facts])
"""
    text = kernel.run(code, limit=RUN_S).ok().text
    assert "['digest', 'name', 'transport']" in text
    assert "['mine', 'own']" in text
    told = [[s["name"] for s in m["params"]["mcpServers"]] for m in made.received("session/new")]
    assert told == [["mine"], ["mine", "own"]]
    assert servers_of(made)[1]["headers"] == [{"name": "X-Key", "value": SECRET}]


# -- the kernel as a server -------------------------------------------------------------------


def calling(agent: Any) -> None:
    """What the test gave, over MCP over ACP, each answer noted."""
    news = [m for m in agent.received if m.get("method") == "session/new"]
    (server,) = news[-1]["params"]["mcpServers"] or [{"serverId": "none"}]
    for number, (method, params) in enumerate(agent.given["calls"]):
        message = {"serverId": server["serverId"], "requestId": f"r-{number}", "method": method}
        answer = agent.answer(agent.request("mcp/message", {**message, "params": params}))
        agent.note("said", answer.get("result", answer.get("error")))


ACP = {"mcpCapabilities": {"acp": True}}


def tool(called: str, **arguments: str) -> list[Any]:
    return ["tools/call", {"name": called, "arguments": arguments}]


def said(made: Script, number: int) -> tuple[bool, str]:
    """Whether a call failed, and its text."""
    result = made.notes("said")[number]["result"]
    shown = [block.get("text", block.get("mimeType")) for block in result["content"]]
    return result["isError"], "\n".join(shown)


def test_an_agent_asks_for_variables_by_name_over_acp(kernel: KernelUnderTest, script: Any) -> None:
    calls = [
        ["tools/list", {}],
        tool("list_variables"),
        tool("look_at_variable", name="frame"),
        tool("look_at_variable", name="secret_one"),
        tool("last_error"),
        tool("last_plot"),
        tool("look_at_variable", name="no name"),
    ]
    made = script(capabilities=ACP, given={"calls": calls}, prompt=calling)
    kernel.run("%%python\nimport pandas\nframe = pandas.DataFrame({'n': [1, 2]})", limit=RUN_S).ok()
    kernel.run("%%python\nsecret_one = 'not for agents'\nfrom matplotlib import pyplot").ok()
    kernel.run("%%python\n%matplotlib inline\npyplot.plot([1, 2]); pyplot.show()", limit=RUN_S).ok()
    kernel.run("%%python\nraise KeyError('a failure')").failed("KeyError")
    kernel.run("%acp share kernel").ok()
    connect(kernel, made).ok()
    assert [server["type"] for server in servers_of(made)] == ["acp"]

    def answer(question: str) -> str:
        return "3" if "secret_one" in question else "1"

    cell = kernel.run("go", answer=answer, limit=RUN_S).ok()
    tools = made.notes("said")[0]["result"]["tools"]
    assert len(tools) == 5
    failed, listed = said(made, 1)
    variables = {item["name"]: item for item in json.loads(listed)["variables"]}
    assert variables["frame"] == {"name": "frame", "type": "pandas.DataFrame", "shape": [2, 1]}
    assert "In" not in variables
    failed, text = said(made, 2)
    assert (failed, "2 rows, 1 columns" in text) == (False, True)
    failed, text = said(made, 3)
    assert (failed, "not allowed" in text, "not for agents" in text) == (True, True, False)
    assert "a failure" in said(made, 4)[1]
    assert said(made, 5) == (False, "image/png")
    assert said(made, 6) == (True, "that is no name of a variable")
    assert len(cell.asked) == 5
    assert "Denied by you" in cell.text
    assert "Show the agent the variable frame" in cell.text


def test_code_runs_in_a_namespace_of_its_own_after_a_yes(
    kernel: KernelUnderTest, script: Any
) -> None:
    codes = [
        "double = [2 * x for x in numbers]\nprint('printed')\nsum(double)",
        "double",
        "numbers = None\nraise ValueError('of the agent')",
        "this is no Python",
        "import sys; sys.exit(3)",
        "from matplotlib import pyplot\npyplot.plot([1])\nNone",
    ]
    calls = [tool("run_code", code=code) for code in codes]
    made = script(capabilities=ACP, given={"calls": calls}, prompt=calling)
    kernel.run("%%python\nnumbers = [1, 2]").ok()
    kernel.run("%acp share kernel").ok()
    connect(kernel, made).ok()
    cell = kernel.run("go", answer=once, limit=RUN_S).ok()
    assert codes[0].splitlines()[0] in cell.asked[0]
    assert said(made, 0) == (False, "printed\nvalue: int\n\n6")
    assert said(made, 1) == (False, "value: list of length 2\n\n[2, 4]")
    failed, text = said(made, 2)
    assert failed
    assert text.startswith("Traceback")
    assert "scratch.py" not in text
    assert text.endswith("ValueError: of the agent")
    assert said(made, 3)[0]
    assert "SystemExit: 3" in said(made, 4)[1]
    assert said(made, 5)[1].endswith("image/png")
    look = "print(numbers, 'double' in globals(), pyplot.get_fignums())"
    after = kernel.run(f"%%python\nfrom matplotlib import pyplot\n{look}")
    assert "[1, 2] False []" in after.ok().text


def test_nothing_is_run_or_shown_where_nobody_can_answer_and_policies_know_the_kinds(
    kernel: KernelUnderTest, script: Any
) -> None:
    calls = [tool("list_variables"), tool("run_code", code="touched = 1")]
    made = script(capabilities=ACP, given={"calls": calls}, prompt=calling)
    policy = kernel.cwd.parent / "policy.json"
    rule = {"action": "allow", "kind": "read"}
    policy.write_text(json.dumps({"default": "deny", "rules": [rule]}))
    kernel.run("%acp share kernel").ok()
    connect(kernel, made).ok()
    kernel.run("go", limit=RUN_S).ok()
    assert all(said(made, number)[0] for number in (0, 1))
    kernel.run(f"%acp permissions {policy}").ok()
    kernel.run("go", limit=RUN_S).ok()
    assert [said(made, number)[0] for number in (2, 3)] == [False, True]


def test_what_is_not_shared_is_not_served(kernel: KernelUnderTest, script: Any) -> None:
    made = script(capabilities=ACP, given={"calls": [tool("list_variables")]}, prompt=calling)
    connect(kernel, made).ok()
    kernel.run("go", limit=RUN_S).ok()
    kernel.run("%acp share kernel").ok()  # from the next session on
    assert kernel.run("%acp share").ok().text.strip() == "The kernel is shared."
    kernel.run("go", limit=RUN_S).ok()
    assert [answer["code"] for answer in made.notes("said")] == [-32601, -32601]


def test_what_was_shared_is_taken_back_at_once(kernel: KernelUnderTest, script: Any) -> None:
    made = script(capabilities=ACP, given={"calls": [tool("list_variables")]}, prompt=calling)
    kernel.run("%acp share kernel").ok()
    kernel.run("%acp permissions allow").ok()
    connect(kernel, made).ok()
    kernel.run("go", limit=RUN_S).ok()
    kernel.run("%acp share off").ok()
    kernel.run("go", limit=RUN_S).ok()
    assert [said(made, number)[0] for number in (0, 1)] == [False, True]
    assert "not shared any more" in said(made, 1)[1]


def test_an_unknown_address_is_refused(kernel: KernelUnderTest, script: Any) -> None:
    def prompt(agent: Any) -> None:
        for params in ({"serverId": "x", "requestId": "r", "method": "ping"}, {"serverId": "x"}, 7):
            agent.note("said", agent.answer(agent.request("mcp/message", params))["error"]["code"])

    made = script(capabilities=ACP, prompt=prompt)
    kernel.run("%acp share kernel").ok()
    connect(kernel, made).ok()
    kernel.run("go", limit=RUN_S).ok()
    assert made.notes("said") == [-32002, -32602, -32602]


def test_an_agent_of_the_earlier_form_connects_first(kernel: KernelUnderTest, script: Any) -> None:
    def prompt(agent: Any) -> None:
        def ask(called: str, **params: Any) -> Any:
            answer = agent.answer(agent.request(called, params))
            agent.note(called, answer.get("result", answer.get("error")))
            return answer.get("result")

        news = [m for m in agent.received if m.get("method") == "session/new"]
        (server,) = news[-1]["params"]["mcpServers"]
        connection = ask("mcp/connect", serverId=server["serverId"])["connectionId"]
        params = {"protocolVersion": "2025-06-18"}
        ask("mcp/message", connectionId=connection, method="initialize", params=params)
        ask("mcp/message", connectionId=connection, method="resources/list")
        ask("mcp/disconnect", connectionId=connection)
        ask("mcp/message", connectionId=connection, method="ping")
        ask("mcp/connect", serverId="none")

    made = script(capabilities=ACP, prompt=prompt)
    made.older_methods |= {"mcp/connect", "mcp/message", "mcp/disconnect"}
    kernel.run("%acp share kernel").ok()
    connect(kernel, made).ok()
    kernel.run("go", limit=RUN_S).ok()
    hello, unknown, gone = made.notes("mcp/message")
    assert hello["serverInfo"]["name"] == "jupyter-kernel"
    assert (unknown["code"], gone["code"]) == (-32601, -32002)
    assert made.notes("mcp/connect")[1]["code"] == -32002


def test_code_that_does_not_end_is_interrupted_with_the_turn(
    kernel: KernelUnderTest, script: Any
) -> None:
    code = "ran = []\nwhile True: ran.append(1)"
    made = script(capabilities=ACP, given={"calls": [tool("run_code", code=code)]}, prompt=calling)
    kernel.run("%acp share kernel").ok()
    kernel.run("%acp permissions allow").ok()
    connect(kernel, made).ok()
    cell = kernel.start("go")
    cell.wait_text("Run code with the notebook's variables", RUN_S)
    kernel.interrupt()
    cell.finish(RUN_S)
    assert "cancelled" in cell.text.lower()
    assert kernel.run("%%python\nprint('alive', 'ran' in globals())").ok().text == "alive False\n"


def test_a_python_cell_that_waits_for_the_agent_serves_it(
    kernel: KernelUnderTest, script: Any
) -> None:
    calls = [tool("look_at_variable", name="numbers")]
    made = script(capabilities=ACP, given={"calls": calls}, prompt=calling)
    code = f"""%%python
import acp_jupyter as acp
numbers = [1, 2, 3]
with acp.connect({list(made.argv)!r}, share_kernel=True, permissions="allow") as agent:
    agent.new_session().prompt("go")
"""
    kernel.run(code, limit=RUN_S).ok()
    assert said(made, 0) == (False, "numbers: list of length 3\n\n[1, 2, 3]")


def talk(modes: str, server: dict[str, Any], calls: list[Any]) -> list[dict[str, Any]]:
    """What a client on the official SDK hears from a server that it starts, once for each mode."""
    argv = [sys.executable, str(PEERS / "client.py"), modes, json.dumps(server), json.dumps(calls)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_a_client_on_the_official_sdk_reaches_the_kernel_over_stdio(
    kernel: KernelUnderTest, script: Any
) -> None:
    def prompt(agent: Any) -> None:
        agent.wait("session/cancel", 150)

    made = script(prompt=prompt)
    kernel.run("%%python\nnumbers = [1, 2, 3]").ok()
    kernel.run("%acp share kernel").ok()
    kernel.run("%acp permissions allow").ok()
    connect(kernel, made).ok()
    (server,) = servers_of(made)
    calls = [["look_at_variable", {"name": "numbers"}], ["run_code", {"code": "1/0"}]]
    cell = kernel.start("go")
    cell.wait(lambda _: made.notes("turn"), RUN_S)
    modern, legacy = talk("auto,legacy", server, calls)
    kernel.interrupt()
    cell.finish(RUN_S)
    assert (modern["version"], legacy["version"]) == ("2026-07-28", "2025-11-25")
    assert modern["results"] == legacy["results"]
    assert modern["results"][0] == [False, "numbers: list of length 3\n\n[1, 2, 3]"]
    assert modern["results"][1][0]
    key = server["env"][0]["value"]
    assert key not in kernel.run("%acp log").ok().text
    wrong = {**server, "env": [{**server["env"][0], "value": "0" * 32}]}
    argv = [wrong["command"], *wrong["args"]]
    done = subprocess.run(  # an end at once, and not a word
        argv,
        env={"ACP_JUPYTER_MCP_KEY": "0" * 32},
        input=b"",
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == b""


# -- the main thread --------------------------------------------------------------------------


class Loop:
    """A kernel whose main thread is busy with a cell."""

    io_loop: Any

    def __init__(self) -> None:
        self.io_loop = self

    def add_callback(self, _function: Any) -> None:
        pass


@pytest.fixture
def main_thread() -> Iterator[tuple[MainThread, Portal]]:
    portal = Portal("main-thread-test")
    portal.start()
    yield MainThread(Loop(), portal), portal
    portal.stop()


def test_a_function_runs_on_the_thread_that_serves(main_thread: tuple[MainThread, Portal]) -> None:
    main, portal = main_thread

    async def where() -> Any:
        return await main.run(threading.current_thread, limit=60.0)

    assert portal.wait(portal.submit(where), serve=main.serve) is threading.main_thread()


def test_a_function_that_nobody_waits_for_any_more_is_interrupted(
    main_thread: tuple[MainThread, Portal],
) -> None:
    main, portal = main_thread

    begun = threading.Event()

    def endless() -> None:
        begun.set()
        while True:
            time.sleep(0.001)

    async def stop(scope: trio.CancelScope) -> None:
        await trio.to_thread.run_sync(begun.wait)
        scope.cancel()

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop, nursery.cancel_scope)
            await main.run(endless, limit=60.0)

    portal.wait(portal.submit(run), serve=main.serve)
    assert begun.is_set()


def test_a_function_that_nobody_serves_is_never_begun(
    main_thread: tuple[MainThread, Portal],
) -> None:
    main, portal = main_thread
    called: list[int] = []

    async def run() -> None:
        await main.run(lambda: called.append(1), limit=0.05)

    with pytest.raises(TimeoutError, match="busy"):
        portal.submit(run).result(60)
    main.serve()
    assert called == []


def test_what_a_function_raises_is_raised_where_it_is_awaited(
    main_thread: tuple[MainThread, Portal],
) -> None:
    main, portal = main_thread

    def fail() -> None:
        raise KeyError("x")

    async def run() -> None:
        await main.run(fail, limit=60.0)

    with pytest.raises(KeyError):
        portal.wait(portal.submit(run), serve=main.serve)
