"""`%acp connect` of agents of the registry, and `%acp agents`, in a running kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.bench.kernels import clean_environment
from tests.kernel_client import KernelUnderTest, open_kernel
from tests.live_kernel import as_server, live_kernel
from tests.registry_server import (
    RegistryServer,
    binary,
    entry,
    make_program,
    make_tar,
    registry_server,
    tar_member,
)
from tests.test_cli import run as command
from tests.test_comm_tap import Page

pytestmark = pytest.mark.skipif(os.name != "posix", reason="programs are scripts")

ONCE, ALWAYS, DENY = "1", "2", "3"

RUNNER = f"""#!{sys.executable}
import json, os, sys
with open({{log!r}}, "a") as log:
    log.write(json.dumps([sys.argv, os.getcwd(), os.environ.get("AGENT_SETTING", "")]) + "\\n")
os.environ["PYTHONPATH"] = {os.fspath(Path(__file__).parents[1])!r}
os.execv(sys.executable, [sys.executable, "-P", "-m", "acp_jupyter.demo_agent"])
"""


@dataclass
class Place:
    """A kernel, a registry, and a PATH.

    Attributes:
        log: of calls of the runners, a line each.
    """

    kernel: KernelUnderTest
    server: RegistryServer
    programs: Path
    log: Path

    def calls(self) -> list[tuple[list[str], str, str]]:
        """Arguments, working directory and variable of each call of npx and uvx."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [tuple(json.loads(line)) for line in lines]

    def serve(self, *agents: dict[str, object]) -> None:
        """Make this the registry, and fetch it."""
        self.server.put(*agents)
        text = self.kernel.run("%acp agents update").ok().text
        assert f"Agents in the registry: {len(agents)}" in text


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    home = tmp_path_factory.mktemp("installing")
    programs, log = home / "programs", home / "calls"
    text = RUNNER.format(log=os.fspath(log)).encode()
    make_program(programs, "npx", text)
    make_program(programs, "uvx", text)
    make_program(programs, "gemini")
    with registry_server() as server:
        environment = {
            "PATH": f"{programs}:/usr/bin:/bin",
            "ACP_JUPYTER_REGISTRY": server.address,
            "ACP_DEMO_STORE": str(home / "sessions"),
        }
        with open_kernel(home, environment=environment) as kernel:
            yield Place(kernel, server, programs, log)


@pytest.fixture
def place(whole: Place) -> Place:
    """One kernel for all tests; each uses agents of its own, and starts without calls."""
    whole.kernel.ready()
    whole.log.unlink(missing_ok=True)
    return whole


def answer(*replies: str) -> Callable[[str], str | None]:
    left = list(replies)
    return lambda _prompt: left.pop(0) if left else None


def test_where_nobody_can_answer_nothing_is_downloaded(place: Place) -> None:
    place.serve(entry("alone"))
    cell = place.kernel.run("%acp connect alone").failed("UsageError")
    for words in (
        "would be downloaded and run (the npm package alone@1.2.3)",
        "nobody can be asked",
        "%acp connect alone --yes",
        "c.ACPJupyter.allow_agents = ['alone']",
    ):
        assert words in cell.traceback
    assert place.calls() == []


def test_what_would_run_is_shown_and_asked_once(place: Place) -> None:
    place.serve(
        entry(
            "asked",
            distribution={
                "npx": {"package": "asked@1.2.3", "args": ["--acp"], "env": {"AGENT_SETTING": "x"}}
            },
        )
    )
    cell = place.kernel.run("%acp connect asked", answer=answer(DENY)).failed("UsageError")
    assert "you did not allow it" in cell.traceback
    assert place.calls() == []
    (prompt,) = cell.asked
    for words in (
        "The asked is downloaded and run",
        "Version: 1.2.3",
        "Licence: MIT",
        "Source: the npm package asked@1.2.3",
        "https://example.org/agent",
        f"{place.programs}/npx --yes --prefix",
        "-- asked@1.2.3 --acp",
        "AGENT_SETTING=x",
        "[1] Allow once",
        "[2] Always allow",
        "[3] Deny",
    ):
        assert words in prompt
    cell = place.kernel.run("%acp connect asked", answer=answer(ONCE)).ok()
    assert "Connected to Demo Agent" in cell.text
    assert "Allowed once by you" in cell.text
    ((argv, cwd, setting),) = place.calls()
    assert argv[1:3] == ["--yes", "--prefix"]
    assert argv[4:] == ["--", "asked@1.2.3", "--acp"]
    assert os.path.isdir(argv[3])
    assert (cwd, setting) == (os.path.realpath(place.kernel.cwd), "x")
    # Not asked again, here; a restart is none either. Another version is.
    place.kernel.run("%acp connect asked").ok()
    place.kernel.run("%acp restart").ok()
    place.serve(entry("asked", version="1.2.4"))
    place.kernel.run("%acp connect asked").failed("UsageError")
    assert len(place.calls()) == 3


def test_an_agent_that_is_always_allowed_stays_so_for_the_next_kernel(place: Place) -> None:
    place.serve(entry("always", distribution={"uvx": {"package": "always==1.2.3"}}), entry("once"))
    place.kernel.run("%acp connect always", answer=answer(ALWAYS)).ok()
    place.kernel.run("%acp connect once", answer=answer(ONCE)).ok()
    place.kernel.restart()
    place.kernel.run("%acp connect always").ok()
    place.kernel.run("%acp connect once").failed("UsageError")
    assert [argv[1:] for argv, _, _ in place.calls() if "always==1.2.3" in argv] == [
        ["always==1.2.3"]
    ] * 2


def test_with_yes_nobody_is_asked(place: Place) -> None:
    place.serve(entry("unasked"))
    place.kernel.run("%acp connect unasked --yes").ok()
    assert len(place.calls()) == 1
    cell = place.kernel.run("%acp connect unasked")  # which was consent for that once only
    cell.failed("UsageError")


def test_a_program_on_the_path_needs_no_question(place: Place) -> None:
    place.serve(
        entry("gemini", distribution={"npx": {"package": "@google/g@1.0.0", "args": ["--acp"]}})
    )
    assert "Connected to Demo Agent" in place.kernel.run("%acp connect gemini-cli").ok().text
    assert place.calls() == []
    assert str(place.programs / "gemini") in place.kernel.run("%acp agents gemini").ok().text


def test_a_download_is_told_verified_and_started(place: Place) -> None:
    program = make_program(place.programs.parent / "packed", "agent").read_bytes()
    packed = make_tar(tar_member("bin/agent", program))
    url = place.server.add("loaded.tgz", packed)
    good = binary(url, packed, cmd="./bin/agent", args=["--acp"])
    place.serve(entry("loaded", distribution=good))
    assert "can be downloaded" in place.kernel.run("%acp agents loaded").ok().text
    cell = place.kernel.run("%acp connect loaded", answer=answer(ONCE)).ok()
    assert good["binary"].popitem()[1]["sha256"] in cell.asked[0]
    assert url in cell.asked[0]
    assert "bin/agent --acp" in cell.asked[0]
    assert "its checksum is right" in cell.text
    assert "Connected to Demo Agent" in cell.text
    assert "installed" in place.kernel.run("%acp agents loaded").ok().text
    before = len(place.server.requests)
    place.kernel.run("%acp connect loaded").ok()
    assert len(place.server.requests) == before


def test_a_download_without_a_checksum_says_so_in_the_question(place: Place) -> None:
    program = make_program(place.programs.parent / "packed", "agent").read_bytes()
    url = place.server.add("unchecked", program)
    place.serve(entry("unchecked", distribution=binary(url, cmd="./unchecked")))
    assert "gives no checksum" in place.kernel.run("%acp agents unchecked").ok().text
    cell = place.kernel.run("%acp connect unchecked", answer=answer(ONCE)).ok()
    assert "the registry gives no checksum, so the download cannot be verified" in cell.asked[0]
    assert "there was no checksum to verify" in cell.text


def test_a_download_that_is_another_one_is_not_started(place: Place) -> None:
    url = place.server.add("tampered", b"tampered")
    place.serve(entry("tampered", distribution=binary(url, b"original", cmd="./tampered")))
    cell = place.kernel.run("%acp connect tampered --yes").failed("WrongChecksum")
    assert "is not what the registry says" in cell.traceback
    assert "can be downloaded" in place.kernel.run("%acp agents tampered").ok().text


def test_an_interrupt_withdraws_the_question(place: Place) -> None:
    place.serve(entry("withdrawn"))
    cell = place.kernel.start("%acp connect withdrawn", answer=lambda _prompt: None)
    cell.wait(lambda cell: cell.asked)
    place.kernel.interrupt()
    cell.finish().failed("TurnCancelled")
    assert place.calls() == []


def test_the_list_tells_what_is_installed_and_how_to_get_the_rest(place: Place) -> None:
    place.serve(entry("listed"))
    text = place.kernel.run("%acp agents").ok().text
    rows = {line.split()[0]: line for line in text.splitlines() if line.startswith("  ")}
    assert "installed" in rows["demo"]
    assert "npx downloads it" in rows["listed"]
    assert "not here, see https://block.github.io/goose/" in rows["goose"]
    assert place.server.address in text
    assert "a program called goose on the PATH" in place.kernel.run("%acp agents goose").ok().text
    cell = place.kernel.run("%acp agents listd").failed("UsageError")
    assert "Did you mean listed" in cell.traceback


def test_an_update_without_a_network_leaves_the_list_as_it_was(place: Place) -> None:
    place.serve(entry("kept"))
    place.server.status["/registry.json"] = 503
    try:
        cell = place.kernel.run("%acp agents update").failed("CannotFetch")
    finally:
        del place.server.status["/registry.json"]
    assert "answered 503" in cell.traceback
    assert "kept" in place.kernel.run("%acp agents").ok().text


def test_a_page_asks_by_buttons_and_keeps_what_was_decided(tmp_path: Path, whole: Place) -> None:
    whole.server.put(entry("paged"))
    environment = as_server(tmp_path) | {
        "PATH": f"{whole.programs}:/usr/bin:/bin",
        "ACP_JUPYTER_REGISTRY": whole.server.address,
    }
    with live_kernel(tmp_path, **environment) as kernel:
        kernel.run("%acp agents update").expect_ok()
        cell = kernel.start("%acp connect paged")
        page = Page(kernel, cell)
        page.wait_for_buttons()
        page.tell_shown()
        assert list(page.buttons()) == ["Allow once", "Always allow", "Deny"]
        page.click(page.buttons()["Deny"])
        kernel.finish(cell).expect_error("UsageError")
        assert "Denied by you" in cell.text
        assert page.buttons() == {}
        cell = kernel.start("%acp connect paged")
        page = Page(kernel, cell)
        page.wait_for_buttons()
        page.tell_shown()
        page.click(page.buttons()["Allow once"])
        kernel.finish(cell).expect_ok()
        assert "Connected to Demo Agent" in cell.text


def test_a_script_connects_by_name_what_is_installed_and_downloads_nothing(
    tmp_path: Path, whole: Place
) -> None:
    program = (
        "import acp_jupyter\n"
        "from acp_jupyter.errors import UsageError\n"
        "with acp_jupyter.connect('gemini') as agent:\n"
        "    print(agent.name)\n"
        "try:\n"
        "    acp_jupyter.connect('claude')\n"
        "except UsageError as error:\n"
        "    print(error)\n"
    )
    whole.log.unlink(missing_ok=True)
    environ = clean_environment(tmp_path) | {
        "PATH": str(whole.programs),
        "PYTHONPATH": os.fspath(Path(__file__).parents[1]),
        "ACP_DEMO_STORE": str(tmp_path / "sessions"),
    }
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        env=environ,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    assert "Demo Agent" in done.stdout
    assert "claude-acp would be downloaded and run" in done.stdout
    assert whole.calls() == []


def test_the_command_line_lists_the_same_and_has_its_exit_codes(tmp_path: Path) -> None:
    with registry_server() as server:
        server.put(entry("listed"), entry("broken", version="x y"))
        programs = tmp_path / "programs"
        make_program(programs, "npx")

        def agents(*words: str) -> subprocess.CompletedProcess[str]:
            return command(
                *("agents", *words),
                home=tmp_path,
                ACP_JUPYTER_REGISTRY=server.address,
                PATH=str(programs),
            )

        done = agents("update")
        assert done.returncode == 0, done.stderr
        assert "Agents in the registry: 1" in done.stdout
        assert "Left out: 'broken': its version is 'x y'" in done.stdout
        done = agents()
        assert done.returncode == 0, done.stderr
        assert "listed  " in done.stdout
        done = agents("listed", "--json")
        agent = json.loads(done.stdout)
        assert (agent["id"], agent["state"], agent["license"]) == ("listed", "npx", "MIT")
        assert agent["command"][-2:] == ["listed@1.2.3", "--acp"]
        assert agents("goose").returncode == 3
        assert agents("nobody").returncode == 1
        server.status["/registry.json"] = 500
        done = agents("update")
        assert done.returncode == 4
        assert "used as before" in done.stderr
        found = json.loads(agents("--json").stdout)["agents"]
        assert {"demo", "listed", "goose"} <= {agent["id"] for agent in found}
