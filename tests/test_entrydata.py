"""The data beside an entry's HTML: what the golden files say, which the frontend reads as well."""

from __future__ import annotations

import json
import re
from typing import Any, get_args

import pytest

from acp_jupyter.rendering import entrydata, mimebundle
from acp_jupyter.session.transcript import (
    CellsEntry,
    ElicitationEntry,
    FooterEntry,
    MessageEntry,
    NoticeEntry,
    PermissionEntry,
    PermissionState,
    PlanEntry,
    ProposedCell,
    TerminalEntry,
    TextBuffer,
    ToolCallEntry,
)
from tests import hostile
from tests.golden_entries import BY_HAND, CWD, ENTRIES, FOLDER, IDENT, as_golden

STORED = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.json")}
STRUCTURED = (
    ToolCallEntry,
    PlanEntry,
    PermissionEntry,
    ElicitationEntry,
    CellsEntry,
    FooterEntry,
    TerminalEntry,
)


def call(**fields: Any) -> ToolCallEntry:
    entry = ToolCallEntry("e1", 1, title="Do it")
    for name, value in fields.items():
        setattr(entry, name, value)
    return entry


def data(entry: Any, base: str = "") -> dict[str, Any]:
    found = entrydata.of(entry, IDENT, cwd=CWD, base=base)
    assert found is not None
    return found


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_gives_what_its_golden_file_says(name: str) -> None:
    assert as_golden(ENTRIES[name]) == STORED[name], "see tests/golden_entries.py"


def test_the_golden_files_are_those_of_the_entries_and_cover_each_type() -> None:
    assert STORED.keys() == ENTRIES.keys() | BY_HAND
    assert {type(entry) for entry in ENTRIES.values()} == set(STRUCTURED)
    states = {entry.state for entry in ENTRIES.values() if isinstance(entry, PermissionEntry)}
    assert states == {"allowed", "denied", "cancelled"}


def test_the_version_is_that_of_all_golden_files_but_the_newer_one() -> None:
    versions = {name: golden["data"]["version"] for name, golden in STORED.items()}
    assert versions.pop("newer") > entrydata.VERSION
    assert set(versions.values()) == {entrydata.VERSION}


def test_the_frontend_reads_the_same_type_and_version() -> None:
    protocol = (FOLDER.parents[2] / "labextension" / "src" / "protocol.ts").read_text()
    assert f"ENTRY_MIME = '{entrydata.MIME}'" in protocol
    assert f"ENTRY_VERSION = {entrydata.VERSION};" in protocol
    types = set(re.findall(r"^  type: '(\w+)';", protocol, re.MULTILINE))
    assert types == {golden["data"]["type"] for golden in STORED.values()} - {"chart"}


def test_only_structured_entries_have_data_and_only_where_an_id_is_given() -> None:
    message = MessageEntry("e1", 1, parts=[TextBuffer("hi")])
    for entry in (message, NoticeEntry("e1", 1, text="hm"), PlanEntry("e1", 1, text="# Plan")):
        assert set(mimebundle.bundle(entry, terminals={}, ident=IDENT)) == {
            "text/html",
            "text/plain",
        }
    assert entrydata.MIME not in mimebundle.bundle(call(), terminals={})
    assert entrydata.MIME in mimebundle.bundle(call(), terminals={}, ident=IDENT)


def test_an_open_question_has_no_data_because_its_buttons_stand_in_the_same_output() -> None:
    question = PermissionEntry("e1", 1, title="Write")
    assert entrydata.of(question, IDENT) is None
    assert entrydata.of(ElicitationEntry("e1", 1, message="Which?"), IDENT) is None
    for state in get_args(PermissionState):
        question.state = state
        assert (entrydata.of(question, IDENT) is None) == (state == "pending")


@pytest.mark.parametrize(
    ("path", "base", "expected"),
    [
        (f"{CWD}/src/app.py", "", "src/app.py"),
        ("src/app.py", "", "src/app.py"),
        ("./src/../app.py", "", "app.py"),
        (f"{CWD}/src/app.py", f"{CWD}/notes/july", "../../src/app.py"),
        (f"{CWD}/notes/a.md", f"{CWD}/notes", "a.md"),
        ("a.py", "/home/me", "project/a.py"),
        ("/home/me/other/a.py", "/home/me", "other/a.py"),
        ("/etc/passwd", "", None),
        ("../secret", "", None),
        (f"{CWD}-other/a.py", "", None),
        (CWD, "", None),
        ("", "", None),
        (None, "", None),
        (7, "", None),
        ("a\u202eb.py", "", None),
        ("a\nb.py", "", None),
        ("a" * 2_000, "", None),
    ],
)
def test_a_path_is_relative_to_the_notebook_or_left_out(
    path: object, base: str, expected: str | None
) -> None:
    assert entrydata.relative_path(path, CWD, base or CWD) == expected


def test_paths_of_windows_are_written_with_slashes() -> None:
    cwd = "C:\\Users\\me\\project"
    assert entrydata.relative_path(f"{cwd}\\src\\app.py", cwd, cwd) == "src/app.py"
    assert entrydata.relative_path("c:/users/ME/project/a.py", cwd, cwd) == "a.py"
    assert entrydata.relative_path("src/app.py", cwd, f"{cwd}\\notes") == "../src/app.py"
    assert entrydata.relative_path("D:\\a.py", cwd, cwd) is None


def test_a_tool_call_names_each_place_once_and_the_files_of_its_diffs() -> None:
    entry = call(
        locations=[{"path": "a.py", "line": 4}, {"path": "a.py", "line": 4}, {"path": "a.py"}],
        content=[
            {"type": "diff", "path": f"{CWD}/a.py", "oldText": "1\n", "newText": "2\n"},
            {"type": "diff", "path": f"{CWD}/b.py", "oldText": None, "newText": "1\n2\n"},
            {"type": "diff", "changes": [{"operation": "add", "path": f"{CWD}/c.py"}]},
            {"type": "diff"},
        ],
    )
    shown = data(entry)
    assert shown["locations"] == [{"path": "a.py", "line": 4}, {"path": "b.py"}, {"path": "c.py"}]
    assert (shown["added"], shown["removed"]) == (3, 1)


@pytest.mark.obligation("C30")
def test_a_call_says_why_it_will_not_go_on() -> None:
    assert (data(call())["status"], data(call())["finished"]) == ("pending", False)
    for ended, status in (("denied", "denied"), ("error", "unfinished")):
        shown = data(call(ended_by_turn=ended))
        assert (shown["status"], shown["finished"]) == (status, True)
    assert data(call(status="completed", ended_by_turn="denied"))["status"] == "completed"


def test_the_data_of_a_large_entry_is_small() -> None:
    long = "x" * 100_000
    entry = call(
        title=long,
        kind=long,
        status=long,
        raw_input={"command": long},
        content=[{"type": "content", "content": {"type": "text", "text": long}}],
        locations=[{"path": f"{n}.py", "line": n} for n in range(1_000)],
    )
    assert len(json.dumps(data(entry))) < 2_000
    assert len(json.dumps(data(call(locations=[{"path": "a.py"}])))) < 250


@pytest.mark.parametrize("number", range(len(hostile.TEXTS)))
def test_f51_f53_hostile_text_in_data_shows_what_it_hides(number: int) -> None:
    bad = hostile.TEXTS[number]
    entries = [
        call(title=bad, kind=bad, status=bad, locations=[{"path": bad}]),
        PlanEntry("e1", 1, items=[{"content": bad, "status": bad}]),
        PermissionEntry("e1", 1, title=bad, state="denied", rule=bad, reason=bad),
        ElicitationEntry("e1", 1, message=bad, agent=bad, state="declined", reason=bad),
        FooterEntry("e1", 1, stop_reason=bad),
        FooterEntry("e1", 1, error=bad),
        CellsEntry("e1", 1, cells=[ProposedCell(bad, bad)], agent=bad, session=bad),
    ]
    for entry in entries:
        encoded = json.dumps(data(entry), ensure_ascii=False)
        encoded.encode()
        assert not re.search("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", encoded)
