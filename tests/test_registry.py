"""The registry of agents: what it may say, what is known of it, and how an agent is chosen."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acp_jupyter.errors import UsageError
from acp_jupyter.host.cell import no_cell
from acp_jupyter.host.frontend import Frontend
from acp_jupyter.host.host import Host
from acp_jupyter.host.installing import DOWNLOAD_LIMIT, question, search_path
from acp_jupyter.rendering import text
from acp_jupyter.services.agents import from_name
from acp_jupyter.services.consents import AGENTS, Consents, consent_file
from acp_jupyter.services.registry import binaries, catalogue, choosing
from acp_jupyter.services.registry.fetching import CannotFetch, download, update
from acp_jupyter.services.registry.listing import list_agents
from acp_jupyter.services.registry.model import (
    Invalid,
    RegistryAgent,
    check_address,
    parse_agent,
    parse_registry,
)
from acp_jupyter.services.registry.places import data_folder
from acp_jupyter.services.registry.unpacking import BadArchive
from tests.registry_server import (
    RegistryServer,
    binary,
    entry,
    make_program,
    make_tar,
    registry_server,
    tar_member,
)

HERE = choosing.this_platform()


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data and configuration of their own."""
    for name in ("JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))


@pytest.fixture(scope="module")
def served_by() -> Iterator[RegistryServer]:
    with registry_server() as server:
        yield server


@pytest.fixture
def server(served_by: RegistryServer) -> RegistryServer:
    """A registry on this machine, empty."""
    for kept in (served_by.files, served_by.announced, served_by.moved, served_by.status):
        kept.clear()
    served_by.requests.clear()
    return served_by


def nothing(_name: str) -> None:
    """No program is installed."""


def only(*names: str) -> choosing.Which:
    return lambda name: f"/programs/{name}" if name in names else None


# -- what a registry may say -------------------------------------------------------------------


def test_the_snapshot_keeps_the_rules_and_no_name_means_two_agents() -> None:
    agents, made = catalogue.read_snapshot()
    names = [name for agent in agents.values() for name in (agent.id, *agent.aliases)]
    assert len(names) == len(set(names))
    assert made.year >= 2026
    assert all(agent.program or agent.packages for agent in agents.values())
    for short, ident in {
        "claude": "claude-acp",
        "codex": "codex-acp",
        "qwen": "qwen-code",
        "vibe": "mistral-vibe",
        "copilot": "github-copilot-cli",
        "cursor": "cursor",
        "kimi": "kimi",
        "gemini": "gemini",
        "opencode": "opencode",
        "goose": "goose",
    }.items():
        assert from_name(short, {}).name == short  # as the user calls it
        found = from_name(short, {}).registry
        assert found is not None
        assert found.id == ident


def test_unknown_fields_and_platforms_are_no_fault() -> None:
    targets = binary("https://x.org/a.zip")["binary"] | {"plan9-mips": {"archive": 1}}
    agent = parse_agent(entry(preview={"a": 1}, distribution={"binary": targets, "brew": {}}))
    assert list(agent.binaries) == [HERE]


def npx(package: str, **fields: Any) -> dict[str, Any]:
    return {"distribution": {"npx": {"package": package, **fields}}}


@pytest.mark.parametrize(
    "fields",
    [
        {"id": "../../x"},
        {"id": "-x"},
        {"id": 7},
        {"version": "../1"},
        {"version": ""},
        {"name": ""},
        {"name": ["x"]},
        {"description": "x" * 5000},
        {"distribution": {}},
        {"distribution": []},
        {"distribution": {"npx": "x"}},
        npx("--call=evil"),
        npx("./folder"),
        npx("../folder"),
        npx("/folder"),
        npx("https://x.org/a.tgz"),
        npx("github:user/repo"),
        npx("a@file:../folder"),
        npx("a b"),
        npx("x", args="--acp"),
        npx("x", args=[1]),
        npx("x", args=["a\0b"]),
        npx("x", args=["a"] * 200),
        npx("x", cmd="-c"),
        npx("x", cmd="../x"),
        npx("x", env={"A": 1}),
        npx("x", env={"A=B": "x"}),
        npx("x", env={"PATH": "/x"}),
        npx("x", env={"LD_PRELOAD": "/x"}),
        npx("x", env={"npm_config_registry": "https://evil.org"}),
        npx("x", env={"NODE_OPTIONS": "--require=/x"}),
        npx("x", env={"https_proxy": "http://x"}),
        {"distribution": {"uvx": {"package": "--index-url=https://evil.org"}}},
        {"distribution": {"uvx": {"package": "git+https://x.org/a"}}},
        {"distribution": {"uvx": {"package": "./a"}}},
        {"distribution": binary("http://x.org/a.zip")},
        {"distribution": binary("file:///etc/passwd")},
        {"distribution": binary("https://user:word@x.org/a.zip")},
        {"distribution": binary("https:///a.zip")},
        {"distribution": binary("https://x.org/a.zip", cmd="../a")},
        {"distribution": binary("https://x.org/a.zip", cmd="/bin/sh")},
        {"distribution": binary("https://x.org/a.zip", cmd="c:\\x.exe")},
        {"distribution": binary("https://x.org/a.zip", cmd=".")},
        {"distribution": binary("https://x.org/a.zip", sha256="0")},
        {"distribution": {"binary": {HERE: []}}},
    ],
)
def test_an_entry_that_breaks_a_rule_is_left_out_and_told(fields: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        parse_agent(entry(**fields))
    registry = parse_registry({"agents": [entry(**fields), entry("other")]})
    assert list(registry.agents) == ["other"]
    assert len(registry.left_out) == 1


def test_an_id_that_is_there_twice_counts_once() -> None:
    registry = parse_registry({"agents": [entry(version="1.0.0"), entry(version="2.0.0")]})
    assert registry.agents["tester"].version == "1.0.0"
    assert "twice" in registry.left_out[0]


@pytest.mark.parametrize("document", [None, [], {}, {"agents": {}}, {"agents": [1, "x", {}]}])
def test_what_is_no_registry_is_refused(document: object) -> None:
    with pytest.raises(UsageError):
        parse_registry(document)


@pytest.mark.parametrize(
    ("address", "good"),
    [
        ("https://x.org/r.json", True),
        ("http://127.0.0.1:8000/r.json", True),
        ("http://[::1]/r.json", True),
        ("http://x.org/r.json", False),
        ("http://127.0.0.1.x.org/r.json", False),
        ("ftp://x.org/r.json", False),
        ("https://a:b@x.org/r.json", False),
        ("https://x.org:99999/r.json", False),
        ("r.json", False),
    ],
)
def test_only_https_or_this_machine_is_asked(address: str, good: bool) -> None:
    if good:
        check_address(address)
    else:
        with pytest.raises(UsageError, match="nothing is fetched"):
            check_address(address)


# -- fetching ----------------------------------------------------------------------------------


def test_a_fetched_registry_takes_the_place_of_the_snapshot(server: RegistryServer) -> None:
    server.put(entry(), entry("gemini", **npx("@google/gemini-cli@9.9.9", args=["--acp"])))
    assert catalogue.load(server.address).find("tester") is None
    assert update(server.address).changed
    known = catalogue.load(server.address)
    assert "127.0.0.1" in known.source
    assert known.find("tester") is not None
    gemini = known.find("gemini-cli")
    assert gemini is not None
    assert gemini.packages[0].package == "@google/gemini-cli@9.9.9"
    assert gemini.curated
    assert catalogue.load().find("tester") is None  # which is of another registry


def test_what_has_gone_from_the_registry_is_only_started_where_it_is_installed(
    server: RegistryServer,
) -> None:
    server.put(entry())
    update(server.address)
    goose = catalogue.load(server.address).find("claude")
    assert goose is not None
    assert goose.packages == ()
    assert choosing.plan_launch(goose, HERE, only("claude-agent-acp")).way == "path"


def test_the_registry_is_only_sent_again_when_it_has_changed(server: RegistryServer) -> None:
    server.put(entry())
    assert update(server.address).changed
    again = update(server.address)
    assert not again.changed
    assert list(again.registry.agents) == ["tester"]
    assert server.requests[1][1] != ""
    server.put(entry("other"))
    assert list(update(server.address).registry.agents) == ["other"]


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")
def test_the_cache_is_private_and_not_believed_where_others_may_write_it(
    server: RegistryServer,
) -> None:
    server.put(entry())
    update(server.address)
    cache = catalogue.cache_file()
    assert cache.stat().st_mode & 0o777 == 0o600
    assert cache.parent.stat().st_mode & 0o777 == 0o700
    cache.chmod(0o666)
    known = catalogue.load(server.address)
    assert known.find("tester") is None
    assert "others may write it" in known.problem


@pytest.mark.parametrize("content", ["", "{", "[]", '{"url": 1}', "[" * 100_000])
def test_a_broken_cache_is_told_and_the_snapshot_used(server: RegistryServer, content: str) -> None:
    server.put(entry())
    update(server.address)
    catalogue.cache_file().write_text(content)
    known = catalogue.load(server.address)
    assert known.problem
    assert known.find("claude") is not None
    update(server.address)
    assert not catalogue.load(server.address).problem


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("missing", "answered 404"),
        ("broken", "answered 500"),
        ("no json", "is no JSON"),
        ("no registry", "no registry of agents"),
        ("deep", "is no JSON"),
        ("too large", "more than"),
        ("announced too large", "more than"),
        ("cut", "of"),
        ("elsewhere", "nothing is fetched from"),
        ("in a circle", "answered 302"),
    ],
)
def test_a_fault_of_the_registry_leaves_what_was_known(
    server: RegistryServer, fault: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.put(entry())
    update(server.address)
    before = catalogue.cache_file().read_bytes()
    path = "/registry.json"
    match fault:
        case "missing":
            del server.files[path]
        case "broken":
            server.status[path] = 500
        case "no json":
            server.files[path] = b"<html>"
        case "no registry":
            server.files[path] = b'{"agents": 3}'
        case "deep":
            server.files[path] = b"[" * 200_000
        case "too large":
            monkeypatch.setattr("acp_jupyter.services.registry.fetching.LARGEST", 100)
            server.files[path] += b" "
        case "announced too large":
            server.files[path] += b" "
            server.announced[path] = 10**12
        case "cut":
            server.files[path] += b" "
            server.announced[path] = len(server.files[path]) + 100
        case "elsewhere":
            server.moved[path] = "http://example.org/registry.json"
        case "in a circle":
            server.moved[path] = path
    with pytest.raises((CannotFetch, UsageError), match=words):
        update(server.address)
    assert catalogue.cache_file().read_bytes() == before


def test_without_a_network_it_says_so() -> None:
    with pytest.raises(CannotFetch, match="cannot be reached") as caught:
        update("http://127.0.0.1:9/registry.json")
    assert "network" in caught.value.remedy


def test_a_download_that_is_given_up_ends(server: RegistryServer, tmp_path: Path) -> None:
    address = server.add("agent", bytes(3 * 2**20))
    asked: list[int] = []

    def stopped() -> bool:
        asked.append(1)
        return len(asked) > 1

    with (tmp_path / "f").open("wb") as file, pytest.raises(CannotFetch, match="given up"):
        download(address, file, limit=2**30, stopped=stopped)


# -- choosing ----------------------------------------------------------------------------------


def known(name: str) -> RegistryAgent:
    found = catalogue.load().find(name)
    assert found is not None
    return found


def test_an_installed_program_comes_first_and_needs_no_question() -> None:
    launch = choosing.plan_launch(known("gemini"), HERE, only("gemini", "npx"))
    assert launch.argv == ("/programs/gemini", "--acp")
    assert (launch.way, launch.asks) == ("path", False)


def test_a_package_comes_before_a_download() -> None:
    both = {"npx": {"package": "p@1.2.3"}, "uvx": {"package": "p==1.2.3", "args": ["-x"]}}
    agent = parse_agent(entry(distribution=both | binary("https://x.org/agent")))
    assert choosing.plan_launch(agent, HERE, only("uvx", "npx")).argv == (
        "/programs/uvx",
        "p==1.2.3",
        "-x",
    )
    launch = choosing.plan_launch(agent, HERE, only("npx"))
    assert launch.argv[:4] == ("/programs/npx", "--yes", "--prefix", str(choosing.npx_folder()))
    assert launch.argv[4:] == ("--", "p@1.2.3")
    assert launch.asks
    launch = choosing.plan_launch(agent, HERE, nothing)
    assert (launch.way, launch.source, launch.asks) == ("binary", "https://x.org/agent", True)


def test_a_command_within_a_package_is_named() -> None:
    agent = parse_agent(entry(**npx("p@1.2.3", cmd="agent", args=["a"])))
    argv = choosing.plan_launch(agent, HERE, only("npx")).argv
    assert argv[4:] == ("--package", "p@1.2.3", "--", "agent", "a")
    uvx = {"uvx": {"package": "p==1.2.3", "cmd": "agent"}}
    argv = choosing.plan_launch(parse_agent(entry(distribution=uvx)), HERE, only("uvx")).argv
    assert argv == ("/programs/uvx", "--from", "p==1.2.3", "agent")


def test_what_cannot_be_had_here_says_how_to_get_it() -> None:
    for name, words in (("claude", "Node.js"), ("fast-agent", "pip install uv")):
        with pytest.raises(UsageError, match="is not installed") as caught:
            choosing.plan_launch(known(name), HERE, nothing)
        assert words in caught.value.remedy
    with pytest.raises(UsageError) as caught:
        choosing.plan_launch(known("goose"), HERE, nothing)
    assert "called goose on the PATH" in caught.value.remedy
    agent = parse_agent(entry(distribution=binary("https://x.org/agent")))
    with pytest.raises(UsageError) as caught:
        choosing.plan_launch(agent, "linux-riscv64", nothing)
    assert f"for {HERE}, not linux-riscv64" in caught.value.remedy


def test_a_fetched_registry_cannot_have_another_program_run_unasked(
    server: RegistryServer,
) -> None:
    server.put(
        entry("gemini", **npx("@google/gemini-cli@9.9.9", args=["--evil"])),
        entry("evil", distribution=binary("https://x.org/a.zip", cmd="./sh", args=["-c", "evil"])),
    )
    update(server.address)
    agents = catalogue.load(server.address).agents
    for name, program in (("gemini", "gemini"), ("evil", "sh")):
        launch = choosing.plan_launch(agents[name], HERE, only(program))
        assert (launch.way, launch.asks) == ("path", True)


@pytest.mark.skipif(os.name != "posix", reason="the PATH of POSIX")
def test_programs_of_the_working_directory_are_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_program(tmp_path / "workspace", "gemini")
    make_program(tmp_path / "bin", "npx")
    monkeypatch.chdir(tmp_path / "workspace")
    which = choosing.find_program(f".::{tmp_path / 'bin'}:../workspace")
    assert which("gemini") is None
    assert which("npx") == str(tmp_path / "bin" / "npx")
    assert choosing.find_program("")("gemini") is None


def test_a_listing_tells_what_there_is_and_how_to_get_the_rest(server: RegistryServer) -> None:
    packed = make_tar(tar_member("agent", b"x"))
    loads = binary(server.add("agent.tgz", packed), packed)
    server.put(entry(), entry("loads", distribution=loads), entry("gemini", **npx("g@1.0.0")))
    update(server.address)
    which = only("gemini", "npx", "mine")
    own = {"mine": "mine --x", "gone": ["gone"], "gemini": "gemini --mine"}
    listed = list_agents(own, catalogue.load(server.address), HERE, which)
    states = {agent.id: (agent.origin, agent.state) for agent in listed}
    assert states["demo"] == ("bundled", "installed")
    assert states["mine"] == ("configured", "installed")
    assert states["gone"] == ("configured", "missing")
    assert states["gemini"] == ("configured", "installed")
    assert states["tester"] == ("registry", "npx")
    assert states["loads"] == ("registry", "download")
    assert states["goose"] == ("registry", "missing")
    assert [agent.id for agent in listed].count("gemini") == 1
    json.dumps([agent.as_json() for agent in listed])


# -- consent and downloads ---------------------------------------------------------------------


def test_a_consent_holds_for_exactly_that_agent_version_and_source() -> None:
    def launch(**fields: Any) -> choosing.Launch:
        return choosing.plan_launch(parse_agent(entry(**fields)), HERE, only("npx"))

    allowed = launch()
    others = [
        launch(version="1.2.4"),
        launch(id="other"),
        launch(**npx("tester@1.2.3")),
        launch(**npx("tester@1.2.4", args=["--acp"])),
        launch(**npx("tester@1.2.3", args=["--acp"], env={"A": "b"})),
        launch(**npx("tester@1.2.3", args=["--acp"], cmd="other")),
        launch(distribution=binary("https://x.org/agent")),
        launch(distribution=binary("https://x.org/agent", b"content")),
    ]
    once = Consents(AGENTS)
    once.allow(allowed.identity, "an agent", for_good=False)
    assert once.allowed(launch().identity)
    assert not any(once.allowed(other.identity) for other in others)
    assert not Consents(AGENTS).allowed(allowed.identity)
    once.allow(allowed.identity, "an agent", for_good=True)
    assert Consents(AGENTS).allowed(allowed.identity)
    assert not any(Consents(AGENTS).allowed(other.identity) for other in others)


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")
def test_consents_are_private_and_not_believed_where_others_may_write_them() -> None:
    launch = choosing.plan_launch(parse_agent(entry()), HERE, only("npx"))
    Consents(AGENTS).allow(launch.identity, "an agent", for_good=True)
    assert consent_file(AGENTS).stat().st_mode & 0o777 == 0o600
    consent_file(AGENTS).chmod(0o620)
    with pytest.raises(UsageError, match="others may write it"):
        Consents(AGENTS).allowed(launch.identity)
    consent_file(AGENTS).chmod(0o600)
    consent_file(AGENTS).write_text("[]")
    with pytest.raises(UsageError, match="cannot be read"):
        Consents(AGENTS).allowed(launch.identity)


def installed(agent: RegistryAgent) -> Path:
    return binaries.install(agent, agent.binaries[HERE], stopped=lambda: False)


def left() -> list[str]:
    """What is kept of agents, by name."""
    folder = data_folder() / binaries.AGENTS
    return sorted(path.name for path in folder.rglob("*")) if folder.is_dir() else []


def test_a_download_is_verified_kept_and_not_fetched_again(server: RegistryServer) -> None:
    packed = make_tar(tar_member("bin/agent", b"program"))
    url = server.add("agent.tgz", packed)
    agent = parse_agent(entry(distribution=binary(url, packed, cmd="./bin/agent")))
    assert binaries.installed(agent, agent.binaries[HERE]) is None
    program = installed(agent)
    assert program.read_bytes() == b"program"
    assert installed(agent) == program
    assert len(server.requests) == 1
    assert program.is_relative_to(data_folder() / "agents" / "tester")
    if os.name == "posix":
        place = binaries.place_of(agent, agent.binaries[HERE])
        for folder in (place, place.parent, place.parent.parent):
            assert folder.stat().st_mode & 0o777 == 0o700
    newer = parse_agent(entry(version="1.2.4", distribution=binary(url, packed, cmd="bin/agent")))
    assert installed(newer) != program


def test_a_download_may_be_moved_and_be_one_program(server: RegistryServer) -> None:
    server.add("agent-1.2.3", b"program")
    server.moved["/latest/agent"] = f"{server.base}/agent-1.2.3"
    distribution = binary(f"{server.base}/latest/agent", b"program", cmd="./agent-1.2.3")
    assert installed(parse_agent(entry(distribution=distribution))).name == "agent-1.2.3"


@pytest.mark.parametrize("fault", ["checksum", "archive", "cut", "missing", "unsafe"])
def test_a_download_with_a_fault_leaves_nothing_behind(server: RegistryServer, fault: str) -> None:
    packed = make_tar(tar_member("agent", b"program" * 1000))
    url = server.add("agent.tgz", packed)
    distribution = binary(url, packed)
    error: type[Exception] = CannotFetch
    match fault:
        case "checksum":
            server.add("agent.tgz", packed + b"x")
            error = binaries.WrongChecksum
        case "archive":
            distribution = binary(server.add("agent.tgz", packed[:50]))
            error = BadArchive
        case "cut":
            server.announced["/agent.tgz"] = len(packed) + 10
        case "missing":
            del server.files["/agent.tgz"]
        case "unsafe":
            server.moved["/agent.tgz"] = "http://example.org/agent.tgz"
            error = UsageError
    agent = parse_agent(entry(distribution=distribution))
    with pytest.raises(error):
        installed(agent)
    assert left() == ["tester"]


def test_what_a_registry_says_cannot_look_like_a_line_of_ours() -> None:
    agent = parse_agent(
        entry(
            name="Agent\u202e",
            license="MIT\nSHA-256: verified",
            distribution=binary("https://x.org/agent"),
        )
    )
    asked = text.render(question(choosing.plan_launch(agent, HERE, nothing)), terminals={})
    lines = [line.strip() for line in asked.splitlines()]
    assert "Licence: MIT SHA-256: verified" in lines
    assert [line for line in lines if line.startswith("SHA-256:")] == [
        "SHA-256: none: the registry gives no checksum, so the download cannot be verified"
    ]
    assert "\u202e" not in asked


async def test_what_is_downloaded_at_its_start_has_more_time_where_nobody_can_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("npx", "gemini"):
        make_program(tmp_path / "bin", name)
    monkeypatch.setenv("ACP_JUPYTER_AGENT", "codex")
    host = Host(None, None, {**os.environ, "PATH": str(tmp_path / "bin")})
    cell = no_cell(Frontend("updates", ()))
    spec, limit = await host.installing.ready(
        cell, replace(host.default_agent(), unasked=True, env={"A": "b"}), 60.0
    )
    assert limit == DOWNLOAD_LIMIT
    assert (spec.name, spec.registry, spec.env) == ("codex", None, {"A": "b"})
    assert spec.argv[-1] == "@agentclientprotocol/codex-acp"
    spec, limit = await host.installing.ready(cell, host.agent_named("gemini"), 60.0)
    assert (spec.argv[0], limit) == (str(tmp_path / "bin" / "gemini"), 60.0)
    spec, limit = await host.installing.ready(
        cell, replace(host.agent_named("claude"), unasked=True), None
    )
    assert limit is None


def test_what_a_killed_download_left_is_removed_by_the_next_one(server: RegistryServer) -> None:
    agent = parse_agent(entry(distribution=binary(server.add("agent", b"program"))))
    folder = data_folder() / binaries.AGENTS / "tester"
    for name, age in ((".new-killed", 2 * binaries.KILLED_AFTER), (".new-running", 60)):
        (folder / name / "agent").mkdir(parents=True)
        at = time.time() - age
        os.utime(folder / name, (at, at))
    installed(agent)
    assert not (folder / ".new-killed").exists()
    assert (folder / ".new-running").exists()


def test_python_runs_beside_itself() -> None:
    name = Path(sys.executable).name
    assert choosing.find_program(search_path("/nowhere"))(name) is not None
