"""Remote agents over WebSocket and streamable HTTP: the bundled agent behind a strict server."""

from __future__ import annotations

import sys

import pytest
import trio

from acp_jupyter.errors import ConnectionFailed, ConnectionLost, UsageError
from acp_jupyter.services.agents import from_name
from acp_jupyter.services.policy import Policy
from acp_jupyter.services.recording import Recorder
from tests.conftest import trio_wait_until
from tests.remote_servers import open_peer
from tests.test_client import open_client, shown

TOKEN = "quite-a-secret-token-4711"
KINDS = pytest.mark.parametrize("kind", ["websocket", "http"])


@pytest.fixture(scope="module")
def peer(tmp_path_factory):
    with open_peer(tmp_path_factory.mktemp("peer")) as running:
        yield running


@pytest.fixture(scope="module")
def strict_peer(tmp_path_factory):
    """With TLS and a token, and no streams of sessions that it does not know yet."""
    directory = tmp_path_factory.mktemp("strict")
    with open_peer(directory, "--token", TOKEN, "--strict-sessions", tls=True) as running:
        yield running


@pytest.fixture
def trusted(strict_peer, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(strict_peer.authority))
    monkeypatch.setenv("LAB_ACCESS", TOKEN)
    return strict_peer


def agent(peer, kind, **settings):
    return from_name("far", {"far": {"url": peer.url(kind), **settings}})


def prompt(text):
    return [{"type": "text", "text": text}]


def new_requests(peer, before):
    return [r for r in peer.seen()[before:] if r["method"] != "DELETE"]


@pytest.mark.obligation("C84")
@KINDS
async def test_a_turn_with_a_remote_agent(peer, kind, tmp_path):
    async with open_client() as client:
        session = await client.connect(agent(peer, kind), str(tmp_path))
        await session.prompt(prompt("hello there"))
        assert "hello there" in shown(session)
        assert client.agent.pid is None
        assert client.agent.survivors() == []


@pytest.mark.obligation("C86", "C87", "C88", "C89")
@KINDS
async def test_the_rules_of_the_proposal_are_kept(peer, kind, tmp_path):
    """C86-C89: cookies, types, ids and version are in each request; no Origin is."""
    before = len(peer.seen())
    async with open_client() as client:
        session = await client.connect(agent(peer, kind), str(tmp_path))
        await session.prompt(prompt("hello"))
        requests = new_requests(peer, before)
        assert not any("origin" in r["headers"] for r in requests)
        if kind == "websocket":
            assert requests[0]["messages"][:2] == ["initialize", "session/new"]
            assert "sec-websocket-extensions" not in requests[0]["headers"]
            return
        posts = [r for r in requests if r["method"] == "POST"]
        assert [r["message"] for r in posts] == ["initialize", "session/new", "session/prompt"]
        assert {r["headers"]["content-type"] for r in posts} == {"application/json"}
        streams = [r["headers"] for r in requests if r["method"] == "GET"]
        assert {h["accept"] for h in streams} == {"text/event-stream"}
        assert [h.get("acp-session-id") for h in streams] == [None, session.session_id]
        later = [r["headers"] for r in requests[1:]]
        assert len({h["acp-connection-id"] for h in later}) == 1
        assert {h["acp-protocol-version"] for h in later} == {"1"}
        assert {h["cookie"] for h in later} == {"affinity=server-7"}
        assert posts[-1]["headers"]["acp-session-id"] == session.session_id


@pytest.mark.obligation("C85")
@pytest.mark.parametrize("tls", [False, True])
async def test_two_sessions_and_all_messages_share_one_http2_connection(
    peer, trusted, tls, tmp_path
):
    """C85: two turns at once, each with a stream of its own and with POSTs meanwhile."""
    server = trusted if tls else peer
    before = len(server.seen())
    async with open_client() as client:
        spec = agent(server, "http", **({"token_env": "LAB_ACCESS"} if tls else {}))
        first = await client.connect(spec, str(tmp_path), limit=30)
        second = await client.new_session(str(tmp_path), limit=30)
        async with trio.open_nursery() as nursery:
            for number, session in enumerate((first, second)):
                nursery.start_soon(session.prompt, prompt(f"/slow {number + 3}"))
        for session in (first, second):
            await session.prompt(prompt("and again"))
            assert "and again" in shown(session)
        requests = new_requests(server, before)
        assert {r["http"] for r in requests} == {"2"}
        assert len({tuple(r["client"]) for r in requests}) == 1
        assert [r["method"] for r in requests].count("GET") == 3


@pytest.mark.obligation("C79")
@KINDS
async def test_the_agent_asks_reads_and_writes_as_a_local_one_does(peer, kind, tmp_path):
    async with open_client() as client:
        client.policy = Policy("allow")
        session = await client.connect(agent(peer, kind), str(tmp_path))
        await session.prompt(prompt("/write far.txt: written from afar"))
        assert "written from afar" in (tmp_path / "far.txt").read_text()
        await session.prompt(prompt("/read far.txt"))
        assert "written from afar" in shown(session)


@KINDS
async def test_commands_for_a_remote_agent_do_not_get_the_environment(
    trusted, kind, tmp_path, monkeypatch
):
    monkeypatch.setenv("SOMEBODYS_API_KEY", "not-for-the-remote-agent")
    async with open_client() as client:
        client.policy = Policy("allow")
        spec = agent(trusted, kind, token_env="LAB_ACCESS")
        session = await client.connect(spec, str(tmp_path))
        code = "import os; print(sorted(os.environ))"
        (tmp_path / "env.py").write_text(code)
        await session.prompt(prompt(f"/run {sys.executable} env.py"))
        assert "PATH" in shown(session)
        assert "SOMEBODYS_API_KEY" not in shown(session)
        assert "LAB_ACCESS" not in shown(session)


@KINDS
async def test_a_lost_connection_fails_the_turn_and_the_next_one_goes_on(trusted, kind, tmp_path):
    """What had arrived stays; the session is opened again, also where its stream is unknown
    until then, and the cookie finds the server again."""
    async with open_client() as client:
        spec = agent(trusted, kind, token_env="LAB_ACCESS")
        session = await client.connect(spec, str(tmp_path))
        await session.prompt(prompt("remember me"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_drop_in_mid_turn, session, trusted)
            with pytest.raises(ConnectionLost, match="during this turn; the output above is kept"):
                await session.prompt(prompt("/slow 500"))
        assert "Step 2 of 500" in shown(session)
        before = len(trusted.seen())
        again = await client.session()
        assert again.session_id == session.session_id
        assert again.loaded
        await again.prompt(prompt("go on"))
        assert "The agent was connected again, and the session was loaded." in shown(again)
        assert "go on" in shown(again)
        assert new_requests(trusted, before)[0]["headers"]["cookie"] == "affinity=server-7"


async def _drop_in_mid_turn(session, peer):
    await trio_wait_until(lambda: "Step 2 of 500" in shown(session), 30)
    await trio.to_thread.run_sync(peer.drop)


async def test_lost_connections_are_no_crash_loop(peer, tmp_path):
    async with open_client() as client:
        session = await client.connect(agent(peer, "websocket"), str(tmp_path))
        for _ in range(6):
            await trio.to_thread.run_sync(peer.drop)
            await trio_wait_until(lambda: not client.agent.alive)
            session = await client.session()
        await session.prompt(prompt("still here"))
        assert "still here" in shown(session)


@KINDS
async def test_disconnecting_ends_the_connection_there_too(peer, kind, tmp_path):
    before = len(peer.seen())
    async with open_client() as client:
        await client.connect(agent(peer, kind), str(tmp_path))
        await client.disconnect()
        if kind == "http":
            assert peer.seen()[-1]["method"] == "DELETE"
        assert len(peer.seen()) > before


# -- tokens --------------------------------------------------------------------------------------


@KINDS
async def test_a_token_comes_from_a_variable(trusted, kind, tmp_path):
    before = len(trusted.seen())
    async with open_client() as client:
        spec = agent(trusted, kind, token_env="LAB_ACCESS")
        session = await client.connect(spec, str(tmp_path))
        await session.prompt(prompt("hello"))
        assert all(r["authorized"] for r in trusted.seen()[before:])
        assert TOKEN not in repr(spec) + repr(client.agent._transport)


@KINDS
async def test_a_token_comes_from_a_credential_helper_and_is_asked_for_each_time(
    trusted, kind, tmp_path
):
    helper = tmp_path / "helper.py"
    helper.write_text(
        f"import pathlib; f = pathlib.Path({str(tmp_path / 'calls')!r})\n"
        f"f.write_text((f.read_text() if f.exists() else '') + 'x'); print({TOKEN!r})"
    )
    async with open_client() as client:
        spec = agent(trusted, kind, credential_helper=[sys.executable, str(helper)])
        session = await client.connect(spec, str(tmp_path))
        await trio.to_thread.run_sync(trusted.drop)
        await trio_wait_until(lambda: not client.agent.alive)
        session = await client.session()
        await session.prompt(prompt("hello"))
        assert (tmp_path / "calls").read_text() == "xx"


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("raise SystemExit(3)", "exited with code 3"),
        ("print('hunter2 and more')", "is no token"),
        ("", "is no token"),
    ],
)
async def test_a_helper_without_a_token_is_told_of_without_what_it_printed(
    peer, program, says, tmp_path
):
    spec = agent(peer, "http", credential_helper=[sys.executable, "-c", program or "pass"])
    async with open_client() as client:
        with pytest.raises((ConnectionFailed, UsageError), match=says) as caught:
            await client.connect(spec, str(tmp_path))
        assert "hunter2" not in str(caught.value)


@KINDS
async def test_a_missing_or_wrong_token_is_told_with_what_to_do(
    trusted, kind, tmp_path, monkeypatch
):
    async with open_client() as client:
        with pytest.raises(ConnectionFailed, match=r"401(.|\n)*--token-env NAME"):
            await client.connect(agent(trusted, kind), str(tmp_path))
        with pytest.raises(UsageError, match="UNSET_TOKEN is not set"):
            await client.connect(agent(trusted, kind, token_env="UNSET_TOKEN"), str(tmp_path))
        monkeypatch.setenv("LAB_ACCESS", "a-wrong-token")
        with pytest.raises(ConnectionFailed, match="not valid") as caught:
            await client.connect(agent(trusted, kind, token_env="LAB_ACCESS"), str(tmp_path))
        assert caught.value.status == 401
        assert "a-wrong-token" not in str(caught.value)


@KINDS
async def test_a_token_that_the_agent_repeats_is_not_recorded(trusted, kind, tmp_path):
    """F55: also where its variable has no telling name, and where a helper printed it."""
    path = tmp_path / "kept.acp.jsonl"
    recorder = Recorder(path, environment={}, client="1")
    helper = [sys.executable, "-c", f"print({TOKEN!r})"]
    async with open_client() as client:
        client.recorder = lambda: recorder
        session = await client.connect(
            agent(trusted, kind, credential_helper=helper), str(tmp_path)
        )
        await session.prompt(prompt(f"say {TOKEN} again"))
        assert TOKEN in client.agent.secrets
    recorder.close()
    assert "say [redacted] again" in path.read_text()
    assert TOKEN not in path.read_text()


@KINDS
async def test_a_certificate_that_nobody_trusts_is_refused(
    strict_peer, kind, tmp_path, monkeypatch
):
    monkeypatch.setenv("LAB_ACCESS", TOKEN)
    before = len(strict_peer.seen())
    async with open_client() as client:
        with pytest.raises(ConnectionFailed, match=r"(?i)certificate(.|\n)*SSL_CERT_FILE"):
            await client.connect(agent(strict_peer, kind, token_env="LAB_ACCESS"), str(tmp_path))
    assert len(strict_peer.seen()) == before


# -- in a notebook -------------------------------------------------------------------------------


@KINDS
def test_a_notebook_talks_to_a_remote_agent(kernel, trusted, kind, tmp_path):
    kernel.run(
        f"%%python\nimport os\nos.environ['SSL_CERT_FILE'] = {str(trusted.authority)!r}\n"
        f"os.environ['LAB_ACCESS'] = {TOKEN!r}"
    ).ok()
    url = trusted.url(kind)
    banner = kernel.run(f"%acp connect {url} --token-env LAB_ACCESS", limit=60).ok().text
    assert "Connected to" in banner
    assert "hello from a cell" in kernel.run("hello from a cell", limit=60).ok().text
    state = kernel.run("%acp", limit=60).ok().text
    assert url in state
    assert "elsewhere, connected" in state
    trusted.drop()
    cell = kernel.run("go on", limit=60)
    if cell.reply["status"] == "error":  # it was sent before the end was noticed
        assert "the output above is kept" in cell.text
        cell = kernel.run("go on", limit=60)
    assert "connected again" in cell.ok().text
    log = kernel.run("%acp log", limit=60).ok().text
    assert "session/prompt" in log
    assert TOKEN not in banner + state + log + cell.text
    kernel.run("%acp disconnect", limit=60).ok()


def test_the_python_api_connects_to_an_address(kernel, peer):
    code = (
        f"%%python\nimport acp_jupyter as acp\n"
        f"with acp.connect({peer.url('websocket')!r}) as far:\n"
        "    print(far.new_session().prompt('hello from Python').text)"
    )
    assert "hello from Python" in kernel.run(code, limit=60).ok().text
