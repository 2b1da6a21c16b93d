"""``%acp`` in an IPython of its own, on a real host and the bundled agent."""

from __future__ import annotations

import contextvars
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from acp_jupyter.commands import table
from acp_jupyter.display import Bundle
from acp_jupyter.errors import AgentNotFound, UsageError
from acp_jupyter.host.cell import CellContext
from acp_jupyter.host.frontend import Frontend
from acp_jupyter.host.host import Host
from acp_jupyter.magics import AcpMagics, commands


class Screen:
    """What the cells have shown."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def display(
        self, data: Bundle, *, display_id: str, update: bool, metadata: Bundle | None = None
    ) -> None:
        self.shown.append(data["text/plain"])

    def show(self, data: Bundle) -> None:
        self.shown.append(data["text/plain"])

    def stream(self, text: str) -> None:
        self.shown.append(text)

    def take(self) -> str:
        shown, self.shown = self.shown, []
        return "\n".join(shown)


class Acp:
    """``acp("connect demo")`` runs the magic and returns what it showed."""

    def __init__(self, host: Host, magics: AcpMagics, screen: Screen) -> None:
        self.host = host
        self._run: Any = getattr(magics, "acp")  # noqa: B009  # IPython's decorator hides its type
        self._screen = screen

    def __call__(self, line: str) -> str:
        self._run(line)
        return self._screen.take()


@pytest.fixture
def acp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Acp]:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    monkeypatch.chdir(workspace)
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_CONFIG_PATH", "IPYTHONDIR", "ACP_DEMO_STORE"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    (tmp_path / "jupyter_config_dir").mkdir()
    (tmp_path / "jupyter_config_dir" / "jupyter_acp_config.py").write_text(
        "c.ACPJupyter.agents = {'mine': ['/no/such/agent'], 'my other': 'x'}\n"
    )
    root = str(Path(__file__).parents[1])
    kernel: Any = None  # only questions on stdin need it, and here nobody is asked
    host = Host(kernel, None, os.environ | {"PYTHONPATH": root})
    screen = Screen()
    cell = CellContext(screen, Frontend("updates", ()), {}, [], contextvars.copy_context())
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell(config=config)
    try:
        yield Acp(host, AcpMagics(shell, host, lambda: cell), screen)
    finally:
        host.close()


def refusal(acp: Acp, line: str) -> str:
    with pytest.raises(UsageError) as caught:
        acp(line)
    return str(caught.value)


def test_the_state_without_an_agent_says_how_to_connect(acp: Acp) -> None:
    text = acp("")
    assert "No agent is connected" in text
    assert "%acp connect demo" in text
    assert acp("state") == text


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("conect demo", "Did you mean connect"),
        ("xyzzy", "Known: state, connect"),
        ("_x", "Known:"),
        ("connect", "takes the name of one agent"),
        ("connect demo demo", "takes the name of one agent"),
        ("connect demi", "Did you mean demo"),
        ("connect mien", "Did you mean mine"),
        ("connect xyzzy", "Known agents: demo, mine, my other"),
        ("connect --", "no command was given"),
        ("connect demo -- x", "a name or a command, not both"),
        ("connect --cwd", "--cwd needs a directory"),
        ("connect --cwd nowhere demo", "nowhere is no directory"),
        ("connect --cwdd . demo", "Did you mean --cwd"),
        ("connect 'demo", "Check the quotes"),
        ("restart now", "takes no arguments"),
        ("disconnect now", "takes no arguments"),
        ("state now", "takes no arguments"),
        ("permissions perhaps", "ask, deny, allow"),
        ("permissions ask deny", "takes one word"),
        ("roots add", "takes add or remove, and a directory"),
        ("roots add nowhere", "nowhere is no directory"),
        ("roots remove .", "none of the directories that were added"),
        ("log all", "takes a number"),
        ("log 1 2", "takes a number"),
        ("log -1", "takes a number"),
        ("help xyzzy", "Known:"),
        ("restart", "no agent is connected"),
    ],
)
def test_what_is_wrong_is_said_with_what_would_be_right(acp: Acp, line: str, words: str) -> None:
    assert words in refusal(acp, line)


def test_every_command_has_a_help_that_names_it(acp: Acp) -> None:
    text = acp("help")
    for name in commands():
        form = "%acp" if name == "state" else f"%acp {name}"
        assert f"\n  {form}" in text or name == "help"
        own = acp(f"help {name}")
        assert own.startswith(form)
        assert len(own.strip().splitlines()) == 1
    assert max(map(len, text.splitlines())) <= 80


def test_roots_are_added_before_and_after_the_connect_and_removed_again(acp: Acp) -> None:
    for name in ("more", "third"):
        Path("..", name).mkdir()
    own, more, third = (os.path.realpath(name) for name in (".", "../more", "../third"))
    assert acp("roots").split() == [own]
    assert acp("roots add ../more").splitlines() == [own, f"{more}  (added)"]
    acp("connect demo")
    session = acp.host.link().session
    assert session is not None
    assert list(session.roots.paths) == [own, more]
    assert acp("roots add ../third").splitlines()[1:] == [f"{more}  (added)", f"{third}  (added)"]
    assert list(session.roots.paths) == [own, more, third]
    assert acp("roots remove ../more").splitlines() == [own, f"{third}  (added)"]
    assert list(session.roots.paths) == [own, third]


def test_connect_asks_for_version_2_where_that_is_wanted(
    acp: Acp, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in ("connect demo --protocol 2", "connect --protocol=2 demo"):
        assert "ACP version 2" in acp(words)
    with pytest.raises(UsageError, match="'3' is no version") as error:
        acp("connect demo --protocol 3")
    assert "1, or 2" in error.value.remedy
    acp.host.settings.protocol = 2
    assert "ACP version 2" in acp("connect demo")
    assert "ACP version 1" in acp("connect demo --protocol 1")


def test_connect_shows_the_banner_and_the_state(acp: Acp) -> None:
    banner = acp("connect demo")
    for words in ("Connected to Demo Agent", "ACP version 1", os.getcwd(), "Session", "ask ("):
        assert words in banner
    state = acp("")
    assert "ready" in state
    assert "/plan" in state
    assert "demo has ended." in acp("disconnect")
    assert "No agent was connected." in acp("disconnect")


def test_connect_takes_a_folder_in_both_forms(acp: Acp) -> None:
    os.mkdir("a folder")
    for line in ("connect --cwd 'a folder' demo", "connect demo --cwd='a folder'"):
        assert os.path.join(os.getcwd(), "a folder") in acp(line)


def test_options_after_the_dashes_belong_to_the_command(acp: Acp) -> None:
    with pytest.raises(AgentNotFound, match="no-such-program"):
        acp("connect -- /no-such-program --cwd nowhere")
    assert "No agent is connected" in acp("")


def test_a_configured_agent_that_does_not_exist_is_named(acp: Acp) -> None:
    with pytest.raises(AgentNotFound, match="/no/such/agent"):
        acp("connect mine")


def test_the_policy_is_shown_set_and_kept_for_the_next_session(acp: Acp) -> None:
    assert "Permission requests: ask." in acp("permissions")
    assert "Permission requests: deny." in acp("permissions deny")
    assert "deny (each request is refused" in acp("connect demo")
    assert "Permission requests: allow." in acp("permissions ALLOW")
    assert "allow (each request is allowed" in acp("")


def test_the_log_shows_the_last_messages_shortened(acp: Acp) -> None:
    assert "No agent is connected." in acp("log")
    acp("connect demo")
    lines = acp("log").splitlines()
    assert any(line.startswith("→ ") and '"initialize"' in line for line in lines)
    assert any(line.startswith("← ") for line in lines)
    assert max(map(len, lines)) <= 1003
    assert len(acp("log 1").strip().splitlines()) == 1
    assert "→" not in acp("log 0")


def test_restart_gives_another_process(acp: Acp) -> None:
    acp("connect demo")
    link = acp.host.link()
    assert link.agent is not None
    before = link.agent.pid
    assert "Connected to" in acp("restart")
    assert link.agent.pid != before


def test_set_changes_an_option_of_the_session_and_lists_what_there_is(acp: Acp) -> None:
    assert acp("set") == "There are no options.\n"
    acp("connect demo")
    assert "model = small (small, large)" in acp("set")
    assert "model = large (small, large)" in acp("set model large")
    with pytest.raises(UsageError, match="cannot be set to 'huge'"):
        acp("set model huge")
    with pytest.raises(UsageError, match="a name and a value"):
        acp("set model")


def test_each_command_is_entered_with_the_class_that_has_it() -> None:
    for place, names in table.CLASSES.items():
        has = [name for name in vars(table.load(place)) if name.startswith("_do_")]
        assert has == [f"_do_{name}" for name in names]
    modules = {path.stem for path in Path(table.__file__).parent.glob("*.py")}
    entered = {place.partition(".")[0] for place in table.CLASSES}
    assert modules - entered == {"__init__", "base", "help", "table"}
