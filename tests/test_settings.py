"""The user's settings, from Jupyter's configuration directories and the environment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from acp_jupyter.errors import UsageError
from acp_jupyter.host.settings import ACPJupyter
from acp_jupyter.services.agents import from_command


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's configuration directory, and nobody else's."""
    user = tmp_path / "user"
    user.mkdir()
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(user))
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(tmp_path / "site"))
    monkeypatch.setenv("JUPYTER_NO_CONFIG", "")
    return user


def test_without_files_the_defaults_hold() -> None:
    settings = ACPJupyter.load({})
    assert (settings.agent, settings.agents, settings.policy.default) == ("", {}, "ask")
    assert settings.propose_cells


def test_a_python_file_is_read(config: Path) -> None:
    (config / "jupyter_acp_config.py").write_text(
        "c.ACPJupyter.agent = 'mine'\nc.ACPJupyter.agents = {'mine': ['python', 'agent.py']}\n"
        "c.ACPJupyter.silence_limit = 30.0\nc.ACPJupyter.propose_cells = False\n"
    )
    settings = ACPJupyter.load({})
    assert settings.agent == "mine"
    assert settings.agents == {"mine": ["python", "agent.py"]}
    assert settings.silence_limit == 30.0
    assert not settings.propose_cells


def test_a_json_file_is_read(config: Path) -> None:
    (config / "jupyter_acp_config.json").write_text(
        json.dumps({"ACPJupyter": {"agent": "demo", "permissions": "deny"}})
    )
    settings = ACPJupyter.load({})
    assert (settings.agent, settings.policy.default) == ("demo", "deny")


def test_directories_go_before_each_other_as_jupyter_lists_them(
    config: Path, tmp_path: Path
) -> None:
    first = tmp_path / "site"  # JUPYTER_CONFIG_PATH goes before the user's own
    first.mkdir()
    (first / "jupyter_acp_config.py").write_text("c.ACPJupyter.agent = 'first'\n")
    (config / "jupyter_acp_config.py").write_text(
        "c.ACPJupyter.agent = 'second'\nc.ACPJupyter.permissions = 'deny'\n"
    )
    settings = ACPJupyter.load({})
    assert (settings.agent, settings.policy.default) == ("first", "deny")


def test_the_environment_wins_over_files(config: Path) -> None:
    (config / "jupyter_acp_config.py").write_text(
        "c.ACPJupyter.agent = 'file'\nc.ACPJupyter.permissions = 'deny'\n"
    )
    settings = ACPJupyter.load({"ACP_JUPYTER_AGENT": "env", "ACP_JUPYTER_PERMISSIONS": "allow"})
    assert (settings.agent, settings.policy.default) == ("env", "allow")


def test_an_empty_variable_is_none(config: Path) -> None:
    (config / "jupyter_acp_config.py").write_text("c.ACPJupyter.agent = 'file'\n")
    assert ACPJupyter.load({"ACP_JUPYTER_AGENT": ""}).agent == "file"


def test_files_in_the_working_directory_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "jupyter_acp_config.py").write_text("c.ACPJupyter.permissions = 'allow'\n")
    (workspace / "jupyter_acp_config.json").write_text('{"ACPJupyter": {"permissions": "allow"}}')
    monkeypatch.chdir(workspace)
    assert ACPJupyter.load({}).policy.default == "ask"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("jupyter_acp_config.py", "c.ACPJupyter.permissions = 'perhaps'\n"),
        ("jupyter_acp_config.py", "c.ACPJupyter.agents = 7\n"),
        ("jupyter_acp_config.py", "this is no Python\n"),
        ("jupyter_acp_config.py", "1 / 0\n"),
        ("jupyter_acp_config.json", "{"),
        ("jupyter_acp_config.json", '{"ACPJupyter": {"silence_limit": "soon"}}'),
    ],
)
def test_a_file_that_cannot_be_understood_is_named(config: Path, name: str, text: str) -> None:
    (config / name).write_text(text)
    with pytest.raises(UsageError) as caught:
        ACPJupyter.load({})
    assert "jupyter_acp_config" in caught.value.remedy


def test_an_unknown_policy_in_the_environment_names_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        ACPJupyter.load({"ACP_JUPYTER_PERMISSIONS": "perhaps"})
    text = str(caught.value)
    assert "perhaps" in text
    assert all(word in text for word in ("ask", "deny", "allow", "ACP_JUPYTER_PERMISSIONS"))


def test_the_version_of_the_protocol_is_1_or_2_and_the_environment_goes_first(
    config: Path,
) -> None:
    assert ACPJupyter.load({}).protocol == 1
    (config / "jupyter_acp_config.py").write_text("c.ACPJupyter.protocol = 2\n")
    settings = ACPJupyter.load({})
    spec = from_command(["agent"])
    assert settings.asked(spec).protocol == 2
    assert settings.asked(spec, 1).protocol == 1
    assert ACPJupyter.load({"ACP_JUPYTER_PROTOCOL": "1"}).protocol == 1
    with pytest.raises(UsageError, match="'two' is no version"):
        ACPJupyter.load({"ACP_JUPYTER_PROTOCOL": "two"})
