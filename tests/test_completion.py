"""What Tab offers."""

from __future__ import annotations

from typing import Any

import pytest

from acp_jupyter.host.completion import Completion, complete

COMMANDS = [
    {"name": "plan", "description": "make a plan"},
    {"name": "play", "description": None},
    {"name": "search"},
]


def offered(code: str, cursor: int | None = None, **replaced: Any) -> Completion | None:
    given: dict[str, Any] = {
        "line_magics": {"acp", "time"},
        "cell_magics": {"time", "bash"},
        "agents": {"mine": "x", "miles": "y"},
        "commands": COMMANDS,
    }
    return complete(code, len(code) if cursor is None else cursor, **(given | replaced))


@pytest.mark.parametrize(
    ("code", "matches"),
    [
        ("%", ["%%bash", "%%python", "%%time", "%acp", "%time"]),
        ("%a", ["%acp"]),
        ("%%p", ["%%python"]),
        ("%acp", ["%acp"]),
        ("%acp con", ["connect"]),
        ("%acp dis", ["disconnect", "discard"]),
        ("%acp sta", []),
        ("%acp connect mi", ["miles", "mine", "minion-code", "mistral-vibe"]),
        ("%acp connect dem", ["demo"]),
        ("%acp agents up", ["update"]),
        (
            "%acp connect --",
            ["--cwd", "--isolate", "--mcp", "--protocol", "--token-env", "--yes", "--"],
        ),
        ("%acp connect -- d", []),
        ("%acp connect demo --c", ["--cwd"]),
        ("%acp permissions ", ["ask", "deny", "allow"]),
        ("%acp permissions a", ["ask", "allow"]),
        ("%acp permissions ask a", []),
        ("%acp roots ", ["add", "remove"]),
        ("%acp terminals s", ["stop"]),
        ("%acp mcp a", ["add"]),
        ("%acp share ", ["kernel", "off"]),
        ("%acp help lo", ["log", "login", "logout"]),
        ("%acp log 1", []),
        ("/pl", ["/plan", "/play"]),
        ("/", ["/plan", "/play", "/search"]),
        ("/plan a", []),
        ("see /pl", []),
        ("Hello\n/pl", []),
        ("he", []),
        ("import o", []),
        ("100 %a", []),
    ],
)
def test_what_fits_is_offered(code: str, matches: list[str]) -> None:
    found = offered(code)
    assert found is not None
    assert found.matches == matches


def test_a_cell_magic_is_offered_in_the_first_line_only() -> None:
    found = offered("%acp\n%t")
    assert found is not None
    assert found.matches == ["%time"]


def test_python_cells_are_left_to_python() -> None:
    assert offered("%%python\nimport o") is None
    assert offered("\n%%python\nle") is None


def test_a_match_replaces_the_word_before_the_cursor_only() -> None:
    found = offered("%acp con and more", cursor=8)
    assert found is not None
    assert (found.start, found.matches) == (5, ["connect"])
    assert found.types == [
        {"start": 5, "end": 8, "text": "connect", "type": "command", "signature": ""}
    ]


def test_the_cursor_counts_characters_not_bytes() -> None:
    code = "%acp\n%acp help ré"
    found = offered(code)
    assert found is not None
    assert found.start == len("%acp\n%acp help ")


def test_slash_commands_come_with_their_descriptions() -> None:
    found = offered("/pl")
    assert found is not None
    assert [item["signature"] for item in found.types] == ["make a plan", ""]


def test_without_an_agent_nothing_is_offered_for_a_slash() -> None:
    assert offered("/pl", commands=[]) == Completion(3 - len("/pl"))
