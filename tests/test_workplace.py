"""What a session works on, with real agents: its roots, and a write that came too late."""

from __future__ import annotations

import json
import os

import pytest

from acp_jupyter.errors import UsageError
from acp_jupyter.services.agents import from_command
from acp_jupyter.services.policy_file import read_policy
from acp_jupyter.services.recording import Recorder
from tests.test_client import PROMPT, open_client, shown

ROOTS = {"sessionCapabilities": {"additionalDirectories": {}}, "loadSession": True}


def read_and_write(agent):
    """Read a file and write one in a directory that the test adds."""
    path = agent.given["path"]
    agent.ask("fs/read_text_file", path=path)
    agent.ask("fs/write_text_file", path=path + ".new", content="written")


# -- roots ---------------------------------------------------------------------------------------


@pytest.fixture
def folders(tmp_path):
    for name in ("own", "more", "third"):
        (tmp_path / name).mkdir()
    (tmp_path / "more/file").write_text("there")
    return tmp_path


@pytest.mark.obligation("C23")
async def test_a_root_that_is_added_is_served_at_once_and_not_any_more_when_it_is_removed(
    script, folders
):
    more = str(folders / "more")
    made = script(prompt=read_and_write, given={"path": f"{more}/file"})
    async with open_client() as client:
        session = await client.connect(from_command(made.argv), str(folders / "own"))
        await session.prompt(PROMPT)
        client.add_root(more)
        client.add_root(more)
        await session.prompt(PROMPT)
        assert session.roots.paths == (str(folders / "own"), more)
        client.remove_root(more)
        await session.prompt(PROMPT)
        with pytest.raises(UsageError, match="none of the directories that were added"):
            client.remove_root(more)
    reads, writes = (made.notes(f"fs/{kind}_text_file") for kind in ("read", "write"))
    assert ["result" in note for note in reads] == [False, True, False]
    assert ["result" in note for note in writes] == [False, True, False]
    assert "outside the session's roots" in reads[2]["error"]["message"]
    assert reads[1]["result"] == {"content": "there"}
    assert (folders / "more/file.new").read_text() == "written"


@pytest.mark.obligation("C20", "C21", "C22")
async def test_all_roots_are_sent_each_time_a_session_is_opened(script, folders):
    def prompt(agent):
        if agent.run == 1:
            os._exit(3)

    def load_session(agent):
        agent.text("again")
        agent.reply({})

    more, third = str(folders / "more"), str(folders / "third")
    made = script(prompt=prompt, load_session=load_session, capabilities=ROOTS)
    async with open_client() as client:
        client.add_root(more)
        session = await client.connect(from_command(made.argv), str(folders / "own"))
        assert session.roots.paths == (str(folders / "own"), more)
        client.add_root(third)
        with pytest.raises(Exception, match="exited with code 3"):
            await session.prompt(PROMPT)
        session = await client.session()
        assert session.roots.paths == (str(folders / "own"), more, third)
    (new,) = made.received("session/new")
    assert new["params"]["additionalDirectories"] == [more]
    (load,) = made.received("session/load")
    assert load["params"]["additionalDirectories"] == [more, third]


@pytest.mark.obligation("C20")
async def test_an_agent_that_does_not_take_further_roots_is_sent_none(script, folders):
    made = script(capabilities={"sessionCapabilities": {"additionalDirectories": None}})
    async with open_client() as client:
        client.add_root(str(folders / "more"))
        await client.connect(from_command(made.argv), str(folders / "own"))
    (new,) = made.received("session/new")
    assert "additionalDirectories" not in new["params"]


async def test_a_directory_with_the_policys_own_file_becomes_no_root(script, folders):
    policy = folders / "more/policy.toml"
    policy.write_text('default = "deny"')
    made = script()
    async with open_client() as client:
        session = await client.connect(from_command(made.argv), str(folders / "own"))
        session.permissions.policy = read_policy(str(policy))
        with pytest.raises(UsageError):
            client.add_root(str(folders / "more"))
        assert session.roots.paths == (str(folders / "own"),)
        assert client.workplace.roots == []


@pytest.mark.obligation("C68")
async def test_what_is_asked_of_fs_is_told_in_the_capabilities(script, tmp_path):
    made = script()
    async with open_client() as client:
        await client.connect(from_command(made.argv), str(tmp_path))
    (asked,) = made.received("initialize")
    meta = asked["params"]["clientCapabilities"]["_meta"]
    assert meta["acp-jupyter"] == {"notebook": "text"}


# -- a write that came too late ------------------------------------------------------------------


async def test_f36_the_user_sees_both_versions_and_the_recording_keeps_them(script, tmp_path):
    def prompt(agent):
        path = agent.given["path"]
        agent.ask("fs/read_text_file", path=path)
        with open(path, "w") as file:
            file.write("first\nthe user's\n")
        agent.ask("fs/write_text_file", path=path, content="first\nthe agent's\n")

    path = tmp_path / "notes.txt"
    path.write_text("first\nold\n")
    made = script(prompt=prompt, given={"path": str(path)})
    record = tmp_path / "record.jsonl"
    recorder = Recorder(record, environment={}, values=set(), client="1.0")
    async with open_client() as client:
        client.recorder = lambda: recorder
        session = await client.connect(from_command(made.argv), str(tmp_path))
        await session.prompt(PROMPT)
        text = shown(session)
    assert path.read_text() == "first\nthe user's\n"
    (answer,) = made.notes("fs/write_text_file")
    assert "changed on disk" in answer["error"]["message"]
    assert "notes.txt was not written: it has changed since the agent read it" in text
    assert "-the user's" in text
    assert "+the agent's" in text
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert any("-the user's" in json.dumps(line) for line in lines)
