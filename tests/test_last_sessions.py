"""Where a notebook was, kept beside Jupyter's own data and never in the notebook."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from acp_jupyter.services.last_sessions import AGENTS, LastSessions


@pytest.fixture
def kept(tmp_path: Path) -> LastSessions:
    return LastSessions(tmp_path / "sessions", tmp_path / "a.ipynb")


def file_of(tmp_path: Path) -> Path:
    (found,) = (tmp_path / "sessions").iterdir()
    return found


def test_the_last_one_is_found_by_alias_and_agent(kept: LastSessions, tmp_path: Path) -> None:
    kept.write("", "demo", "d1", "one", "/w")
    kept.write("", "other", "d2", "two", "/w")
    kept.write("reviewer", "demo", "d1", "three", "/w")
    kept.write("", "demo", "d1", "four", "/v")
    last = kept.read("")
    assert last is not None
    assert (last.agent, last.session_id, last.cwd) == ("demo", "four", "/v")
    assert getattr(kept.read("", "d2"), "session_id", "") == "two"
    assert getattr(kept.read("reviewer"), "session_id", "") == "three"
    assert kept.read("", "d3") is None
    assert LastSessions(tmp_path / "sessions", tmp_path / "b.ipynb").read("") is None


def test_only_the_user_can_read_it(kept: LastSessions, tmp_path: Path) -> None:
    kept.write("", "demo", "d", "s", "/w")
    assert stat.S_IMODE(file_of(tmp_path).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "sessions").stat().st_mode) == 0o700
    assert "a.ipynb" not in file_of(tmp_path).name


def test_f62_it_holds_neither_a_command_nor_a_consent(kept: LastSessions, tmp_path: Path) -> None:
    kept.write("", "demo", "d", "s", "/w")
    (entry,) = json.loads(file_of(tmp_path).read_bytes())
    assert set(entry) == {"alias", "agent", "digest", "session_id", "cwd", "at", "protocol"}


@pytest.mark.parametrize("text", ["", "[", "{}", '[{"alias": 1}]', "null", "[]"])
def test_a_file_that_is_damaged_says_nothing_and_is_made_anew(
    kept: LastSessions, tmp_path: Path, text: str
) -> None:
    kept.write("", "demo", "d", "s", "/w")
    file_of(tmp_path).write_text(text, encoding="utf-8")
    assert kept.read("") is None
    kept.write("", "demo", "d", "s2", "/w")
    assert getattr(kept.read(""), "session_id", "") == "s2"


def test_a_directory_that_is_not_absolute_is_not_gone_back_to(kept: LastSessions) -> None:
    kept.write("", "demo", "d", "s", "w")
    assert kept.read("") is None


def test_it_stays_small(kept: LastSessions, tmp_path: Path) -> None:
    for number in range(AGENTS + 5):
        kept.write("", "demo", f"d{number}", "s", "/w")
    assert len(json.loads(file_of(tmp_path).read_bytes())) == AGENTS
    assert kept.read("", "d0") is None
    assert kept.read("", f"d{AGENTS + 4}") is not None


def test_a_place_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    kept = LastSessions(tmp_path / "file" / "sessions", tmp_path / "a.ipynb")
    kept.write("", "demo", "d", "s", os.sep)
    assert kept.read("") is None
