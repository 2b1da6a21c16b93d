from __future__ import annotations

import base64
import copy
import gc
import json
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_jupyter.protocol.dialects import SessionState, session_state
from acp_jupyter.protocol.jsonrpc import Notification, Receiver
from acp_jupyter.session.reducer import HISTORY_KEPT, Reducer
from acp_jupyter.session.reports import NOTICE_TEXT, RAW_TEXT, SUBAGENTS, UNKNOWN_KINDS
from acp_jupyter.session.transcript import (
    KEPT_RAW,
    TERMINAL_TAIL,
    Block,
    FilesEntry,
    FooterEntry,
    MessageEntry,
    NoticeEntry,
    PermissionChoice,
    PermissionEntry,
    TerminalEntry,
    TextBuffer,
    ToolCallEntry,
    Transcript,
    UnknownEntry,
)

from .acp_schema import definition
from .transcripts import compact, compact_transcript, play

GOLDEN: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "golden" / "updates.json").read_text()
)
SCHEMAS = [(1, False), (1, True), (2, False), (2, True)]


def started(version: int = 1, prompt: str | list[Block] = "do it") -> tuple[Reducer, Transcript]:
    return play([{"prompt": prompt}], version)


def apply(reducer: Reducer, kind: str | None, /, **fields: Any) -> None:
    reducer.apply({"sessionUpdate": kind, **fields}, 1.0)


def say(reducer: Reducer, text: str, kind: str = "agent_message_chunk", **fields: Any) -> None:
    apply(reducer, kind, content={"type": "text", "text": text}, **fields)


def content(text: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": text}}


def texts(transcript: Transcript) -> list[str]:
    return [entry.text for entry in transcript.entries() if isinstance(entry, MessageEntry)]


def the_call(transcript: Transcript) -> ToolCallEntry:
    (call,) = [entry for entry in transcript.entries() if isinstance(entry, ToolCallEntry)]
    return call


def unknown(transcript: Transcript) -> list[UnknownEntry]:
    return [entry for entry in transcript.entries() if isinstance(entry, UnknownEntry)]


# -- the corpus ---------------------------------------------------------------------------------


@pytest.mark.parametrize("case", GOLDEN, ids=[case["name"] for case in GOLDEN])
def test_a_known_sequence_becomes_its_known_transcript(case: dict[str, Any]) -> None:
    steps = copy.deepcopy(case["steps"])
    _, transcript = play(steps, case["version"])
    assert compact_transcript(transcript) == case["expected"]
    assert steps == case["steps"]  # the wire's dicts are not changed


@pytest.mark.parametrize("case", GOLDEN, ids=[case["name"] for case in GOLDEN])
def test_target_2_a_sequence_cut_into_bytes_becomes_the_same_transcript(
    case: dict[str, Any],
) -> None:
    receiver = Receiver()
    steps: list[dict[str, Any]] = []
    for step in case["steps"]:
        if "sessionId" not in step:
            steps.append(step)
            continue
        message = {"jsonrpc": "2.0", "method": "session/update", "params": step}
        for byte in json.dumps(message).encode() + b"\n":
            for frame in receiver.receive(bytes([byte])):
                assert isinstance(frame, Notification)
                steps.append(frame.params)
    _, transcript = play(steps, case["version"])
    assert compact_transcript(transcript) == case["expected"]


def alternatives(version: int, unstable: bool, name: str, key: str | None = None) -> set[str]:
    """The constants of a union in the official schema; ``key`` names its discriminator."""
    found: Any = definition(version, unstable, name)
    constants = set()
    for alternative in found.get("oneOf", found.get("anyOf")):
        where = alternative.get("properties", {}).get(key, {}) if key else alternative
        if "const" in where:
            constants.add(where["const"])
    assert constants, name
    return constants


@pytest.mark.parametrize(("version", "unstable"), SCHEMAS)
def test_every_kind_of_update_in_the_schemas_is_understood_and_in_the_corpus(
    version: int, unstable: bool
) -> None:
    kinds = alternatives(version, unstable, "SessionUpdate", "sessionUpdate")
    assert kinds <= Reducer(Transcript(), version).kinds
    shown = {
        step["update"].get("sessionUpdate")
        for case in GOLDEN
        for step in case["steps"]
        if "update" in step
    }
    assert kinds <= shown


def test_no_kind_is_understood_that_no_schema_has() -> None:
    kinds: set[str] = set()
    for version, unstable in SCHEMAS:
        kinds |= alternatives(version, unstable, "SessionUpdate", "sessionUpdate")
    assert Reducer(Transcript()).kinds == kinds


BLOCKS: dict[str, dict[str, Any]] = {
    "text": {"text": "x"},
    "image": {"data": "AA==", "mimeType": "image/png"},
    "audio": {"data": "AA==", "mimeType": "audio/wav"},
    "resource_link": {"uri": "file:///a", "name": "a"},
    "resource": {"resource": {"uri": "file:///a", "text": "x"}},
}
ITEMS: dict[str, dict[str, Any]] = {
    "content": {"content": {"type": "text", "text": "x"}},
    "diff": {"path": "/a", "oldText": None, "newText": "x"},
    "terminal": {"terminalId": "t"},
}


@pytest.mark.parametrize(("version", "unstable"), SCHEMAS)
def test_every_type_of_content_is_kept(version: int, unstable: bool) -> None:
    assert alternatives(version, unstable, "ContentBlock", "type") == set(BLOCKS)
    assert alternatives(version, unstable, "ToolCallContent", "type") == set(ITEMS)
    for kind, body in BLOCKS.items():
        for update in ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk"):
            reducer, transcript = started(version)
            apply(reducer, update, messageId="m", content={"type": kind, **body})
            (message,) = transcript.entries()
            assert compact(message)["parts"] == ["x" if kind == "text" else {"type": kind, **body}]
    for kind, body in ITEMS.items():
        reducer, transcript = started(version)
        apply(reducer, "tool_call_update", toolCallId="c", content=[{"type": kind, **body}])
        assert the_call(transcript).content == [{"type": kind, **body}]


@pytest.mark.parametrize(("version", "unstable"), SCHEMAS)
def test_every_tool_kind_and_status_is_kept(version: int, unstable: bool) -> None:
    for kind in alternatives(version, unstable, "ToolKind"):
        reducer, transcript = started(version)
        apply(reducer, "tool_call_update", toolCallId="c", kind=kind)
        assert the_call(transcript).kind == kind
    for status in alternatives(version, unstable, "ToolCallStatus"):
        reducer, transcript = started(version)
        apply(reducer, "tool_call_update", toolCallId="c", status=status)
        assert the_call(transcript).status == status
        final = status in ("completed", "failed", "cancelled")
        assert the_call(transcript).finished == final


@pytest.mark.parametrize(
    "reason", ["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "_odd", None]
)
def test_the_stop_reason_is_in_the_turn_and_its_footer(reason: str | None) -> None:
    assert alternatives(1, True, "StopReason") == {
        "end_turn",
        "max_tokens",
        "max_turn_requests",
        "refusal",
        "cancelled",
    }
    reducer, transcript = started()
    apply(reducer, "tool_call", toolCallId="c", title="t")
    footer = reducer.end_turn(3.5, stop_reason=reason, error="", usage={"totalTokens": 5})
    assert (footer.stop_reason, footer.duration) == (reason, 3.5)
    assert footer.usage == {"totalTokens": 5}
    assert transcript.turn.stop_reason == reason
    assert the_call(transcript).ended_by_turn == (reason or "error")


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("state", ["running", "idle", "requires_action", "unknown"])
def test_every_state_of_the_schemas_is_known(version: int, state: str) -> None:
    assert state in alternatives(2, True, "StateUpdate", "state")
    reducer, transcript = started(version)
    apply(reducer, "state_update", state=state)
    assert transcript.info.state == state
    assert not unknown(transcript)


# -- unknown and malformed ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["_custom", "future_update", "", None, 5, ["x"], {"a": 1}, True])
def test_f8_an_unknown_kind_is_visible_with_its_raw_text_and_counted(kind: Any) -> None:
    reducer, transcript = started()
    for number in range(KEPT_RAW + 5):
        apply(reducer, kind, number=number, huge="x" * 10_000)
    (entry,) = unknown(transcript)
    assert entry.kind == (kind if type(kind) is str else "(no kind)")
    assert entry.count == KEPT_RAW + 5
    assert len(entry.raw) == KEPT_RAW
    assert '"number":0' in entry.raw[0]
    assert max(map(len, entry.raw)) == RAW_TEXT


def test_f8_an_unknown_content_block_is_kept_in_the_message() -> None:
    reducer, transcript = started()
    say(reducer, "a")
    apply(reducer, "agent_message_chunk", content={"type": "_hologram", "x": [1]})
    say(reducer, "b")
    (message,) = transcript.entries()
    assert compact(message)["parts"] == ["a", {"type": "_hologram", "x": [1]}, "b"]


def test_f8_a_flood_of_different_unknown_kinds_stays_a_bounded_number_of_entries() -> None:
    reducer, transcript = started()
    for number in range(2000):
        apply(reducer, f"kind_{number}", data="x" * 100)
    entries = unknown(transcript)
    assert len(entries) == UNKNOWN_KINDS + 1
    assert sum(entry.count for entry in entries) == 2000


def test_f8_an_unknown_update_in_a_later_turn_is_shown_there() -> None:
    _, transcript = play(
        [
            {"prompt": "a"},
            {"sessionId": "s", "update": {"sessionUpdate": "_x"}},
            {"end": "end_turn"},
            {"prompt": "b"},
            {"sessionId": "s", "update": {"sessionUpdate": "_x"}},
        ]
    )
    assert [entry.turn for entry in unknown(transcript)] == [1, 2]


@pytest.mark.parametrize("index", [None, "1", 1.5, [], {}, True])
def test_an_index_that_is_no_integer_is_ignored(index: Any) -> None:
    reducer, transcript = started()
    say(reducer, "a", messageId="m", index=1)
    say(reducer, "b", messageId="m", index=index)
    say(reducer, "c", messageId="m", index=0)
    assert texts(transcript) == ["abc"]


# -- messages -----------------------------------------------------------------------------------


def test_an_empty_chunk_opens_no_message() -> None:
    reducer, transcript = started()
    say(reducer, "")
    assert list(transcript.entries()) == []
    say(reducer, "a")
    say(reducer, "", "agent_thought_chunk")
    say(reducer, "b")
    assert texts(transcript) == ["ab"]


def test_a_thought_and_a_message_with_the_same_id_are_two() -> None:
    reducer, transcript = started(2)
    say(reducer, "hm", "agent_thought_chunk", messageId="m")
    say(reducer, "ok", messageId="m")
    say(reducer, "!", "agent_thought_chunk", messageId="m")
    assert texts(transcript) == ["hm!", "ok"]


def test_a_change_of_the_message_id_begins_a_new_message() -> None:
    reducer, transcript = started()
    for ident, text in (("a", "1"), ("a", "2"), ("b", "3"), (None, "4"), ("b", "5"), ("c", "6")):
        say(reducer, text, **({} if ident is None else {"messageId": ident}))
    assert texts(transcript) == ["12", "345", "6"]


def test_the_fast_way_and_the_slow_way_give_the_same_message() -> None:
    reducer, transcript = started()
    for _ in range(3):
        say(reducer, "a")
        say(reducer, "b")
        apply(reducer, "agent_message_chunk", content={"type": "_x"})
        reducer.notice("n", "noise")
    (message, _) = transcript.entries()
    assert compact(message)["parts"] == ["ab", {"type": "_x"}] * 3
    revision = message.revision
    transcript.take_changed()
    say(reducer, "c")
    say(reducer, "d")
    assert transcript.take_changed() == [message]
    assert message.revision == revision + 2


@pytest.mark.parametrize(
    "between",
    ["tool_call", "plan", "permission", "other role", "files", "new turn"],
)
def test_what_is_more_than_a_notice_ends_a_message_without_an_id(between: str) -> None:
    reducer, transcript = started()
    say(reducer, "a")
    say(reducer, "b")
    if between == "tool_call":
        apply(reducer, "tool_call", toolCallId="c", title="t")
    elif between == "plan":
        apply(reducer, "plan", entries=[])
    elif between == "permission":
        reducer.ask(PermissionEntry(transcript.next_id(), 1))
    elif between == "other role":
        say(reducer, "hm", "agent_thought_chunk")
    elif between == "files":
        reducer.file_event("read", "/a", "served")
    else:
        reducer.end_turn(2.0, stop_reason="end_turn")
        reducer.start_turn([], 3.0)
    say(reducer, "c")
    assert [text for text in texts(transcript) if text != "hm"] == ["ab", "c"]


PROMPT: list[Block] = [
    {"type": "text", "text": "Look at "},
    {"type": "image", "data": "AA==", "mimeType": "image/png"},
    {"type": "text", "text": "this."},
]


@pytest.mark.parametrize(
    ("blocks", "echo"),
    [
        (["Look", " at ", "this."], True),
        (["Look at this. And that"], False),
        (["Look", "!"], False),
        (["this."], True),  # a message for each block
        ([PROMPT[1]], True),
        (["Look at ", PROMPT[1], "this."], True),
        ([{"type": "audio", "data": "AA==", "mimeType": "audio/wav"}], False),
        (["Look", "X", "Look"], False),
    ],
)
def test_the_users_prompt_echoed_is_hidden_and_nothing_else(blocks: list[Any], echo: bool) -> None:
    for version in (1, 2):
        reducer, transcript = started(version, PROMPT)
        whole = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
        if version == 1:
            for block in whole:
                apply(reducer, "user_message_chunk", content=block)
        else:
            apply(reducer, "user_message", messageId="u", content=whole)
        (message,) = transcript.entries()
        assert isinstance(message, MessageEntry)
        assert message.echo == echo


def test_a_user_message_without_a_prompt_is_shown() -> None:
    transcript = Transcript()
    say(Reducer(transcript), "replayed", "user_message_chunk")
    (message,) = transcript.entries()
    assert isinstance(message, MessageEntry)
    assert not message.echo


def test_seed_1_chunks_in_any_order_become_their_text_within_the_window() -> None:
    reducer, transcript = started()
    order = [index ^ 7 for index in range(2000)]
    for index in order:
        say(reducer, f"{index} ", messageId="m", index=index)
    assert texts(transcript)[0].split() == [str(index) for index in range(2000)]
    (message,) = transcript.entries()
    assert isinstance(message, MessageEntry)
    assert len(message.numbered) < 1000


def test_seed_1_a_hundred_thousand_numbered_chunks_cost_no_more_memory_than_others() -> None:
    kept, reducer = memory_of(
        lambda reducer, number: say(reducer, f"{number:020d}", messageId="m", index=number)
    )
    assert kept < 12 * 2**20
    assert len(texts(reducer.transcript)[0]) == 2_000_000


def test_seed_1_chunks_in_reverse_order_take_no_quadratic_time() -> None:
    reducer, _ = started()
    begin = time.process_time()
    for number in range(20_000, 0, -1):
        say(reducer, "twenty characters ok", messageId="m", index=number)
    assert time.process_time() - begin < 10


# -- tool calls ---------------------------------------------------------------------------------

FULL: dict[str, Any] = {
    "title": "T",
    "name": "n",
    "kind": "read",
    "status": "in_progress",
    "content": [content("x")],
    "locations": [{"path": "/a", "line": 1}],
    "rawInput": {"a": 1},
    "rawOutput": [2],
}
ATTRIBUTES = {"rawInput": "raw_input", "rawOutput": "raw_output"}
DEFAULTS: dict[str, Any] = {
    "title": "",
    "name": None,
    "kind": "other",
    "status": "pending",
    "content": [],
    "locations": [],
    "rawInput": None,
    "rawOutput": None,
}


@pytest.mark.parametrize("field", sorted(FULL))
@pytest.mark.parametrize("version", [1, 2])
def test_null_leaves_a_field_in_version_1_and_clears_it_in_version_2(
    version: int, field: str
) -> None:
    reducer, transcript = started(version)
    apply(reducer, "tool_call_update", toolCallId="c", **FULL)
    apply(reducer, "tool_call_update", toolCallId="c")  # absent: unchanged in both
    call = the_call(transcript)
    attributes = {key: getattr(call, ATTRIBUTES.get(key, key)) for key in FULL}
    assert attributes == FULL
    apply(reducer, "tool_call_update", toolCallId="c", **{field: None})
    attributes = {key: getattr(call, ATTRIBUTES.get(key, key)) for key in FULL}
    assert attributes == (FULL if version == 1 else {**FULL, field: DEFAULTS[field]})


@pytest.mark.parametrize("wrong", [5, "x", [5], {}, True, 1.5])
@pytest.mark.parametrize("field", ["title", "name", "kind", "status", "content", "locations"])
def test_a_value_of_a_wrong_type_leaves_the_field(field: str, wrong: Any) -> None:
    expected: dict[type, Any] = {str: str, list: list}
    if type(wrong) is expected[type(FULL[field])]:
        wrong = None
    reducer, transcript = started()
    apply(reducer, "tool_call", toolCallId="c", **FULL)
    apply(reducer, "tool_call_update", toolCallId="c", **{field: wrong})
    assert getattr(the_call(transcript), field) == FULL[field]


def test_f61_meta_sets_no_field_of_a_tool_call() -> None:
    reducer, transcript = started()
    evil = {**FULL, "title": "evil", "toolCallId": "evil", "sessionUpdate": "plan"}
    apply(reducer, "tool_call", toolCallId="c", title="T", _meta=evil)
    apply(reducer, "tool_call_update", toolCallId="c", _meta=evil)
    entry = compact(the_call(transcript))
    assert entry == {"entry": "tool_call", "tool_call_id": "c", "title": "T"}


def test_f63_an_id_of_an_agent_is_opaque_and_never_one_of_ours() -> None:
    reducer, transcript = started()
    for ident in ("../../x", "<b>", "e1", "x" * 1024, "\x00"):
        apply(reducer, "tool_call", toolCallId=ident, title="t")
    calls = [entry for entry in transcript.entries() if isinstance(entry, ToolCallEntry)]
    assert [call.id for call in calls] == ["e1", "e2", "e3", "e4", "e5"]
    assert [call.tool_call_id for call in calls][:3] == ["../../x", "<b>", "e1"]
    for bad in ("x" * 1025, "", None, 5, ["c"]):
        apply(reducer, "tool_call", toolCallId=bad, title="t")
        apply(reducer, "terminal_output_chunk", terminalId=bad, data="YQ==")
        apply(reducer, "compaction_update", compactionId=bad, status="failed")
    assert {entry.kind for entry in unknown(transcript)} == {
        "tool_call",
        "terminal_output_chunk",
        "compaction_update",
    }
    assert len(transcript.tool_calls) == 5


def test_a_permission_may_name_a_call_that_was_never_announced() -> None:
    reducer, transcript = started()
    call = reducer.tool_call({"toolCallId": "c", "title": "rm", "kind": "execute"})
    assert (call.title, call.kind, call.announced) == ("rm", "execute", False)
    assert list(transcript.entries()) == [call]
    apply(reducer, "tool_call", toolCallId="c", title="rm -r")
    assert the_call(transcript) is call
    assert call.announced
    assert reducer.tool_call({"toolCallId": "c", "status": "in_progress"}) is call
    assert call.announced
    assert (call.title, call.status) == ("rm -r", "in_progress")


def test_a_permission_for_the_id_of_a_finished_call_of_an_earlier_turn_is_a_new_call() -> None:
    reducer, _ = started()
    apply(reducer, "tool_call", toolCallId="call_1", title="old", status="completed")
    old = reducer.tool_call({"toolCallId": "call_1"})
    reducer.end_turn(2.0, stop_reason="end_turn")
    reducer.start_turn([], 3.0)
    new = reducer.tool_call({"toolCallId": "call_1", "title": "new"})
    assert new is not old
    assert (old.title, new.turn) == ("old", 2)


def test_f22_an_update_of_a_running_call_of_an_earlier_turn_goes_to_that_turn() -> None:
    reducer, transcript = started()
    apply(reducer, "tool_call", toolCallId="c", title="server", status="in_progress")
    call = the_call(transcript)
    reducer.end_turn(2.0, stop_reason="cancelled")
    reducer.start_turn([], 3.0)
    transcript.take_changed()
    apply(reducer, "tool_call_update", toolCallId="c", status="failed")
    assert transcript.take_changed() == [call]
    assert (call.turn, call.status, call.ended_by_turn) == (1, "failed", "cancelled")
    assert transcript.turn.entries == []


def test_f22_a_second_end_of_a_turn_changes_nothing() -> None:
    reducer, transcript = started()
    first = reducer.end_turn(2.0, stop_reason="cancelled")
    assert reducer.end_turn(5.0, stop_reason="end_turn") is first
    assert [type(entry) for entry in transcript.entries()] == [FooterEntry]
    assert transcript.turn.stop_reason == "cancelled"


@pytest.mark.parametrize(
    "kind", ["plan", "notice", "_unknown", "agent_message_chunk", "tool_call", "usage_update"]
)
def test_f22_what_comes_after_the_end_is_shown_by_the_footer(kind: str) -> None:
    reducer, transcript = started()
    footer = reducer.end_turn(2.0, stop_reason="end_turn")
    transcript.take_changed()
    apply(
        reducer,
        kind,
        content={"type": "text", "text": "x"},
        entries=[],
        title="t",
        toolCallId="c",
        severity="info",
        used=1,
    )
    assert transcript.take_changed() == [footer]
    assert len(footer.late_entries) == (kind != "usage_update")
    assert footer.usage == ({"used": 1} if kind == "usage_update" else {})


def test_f22_a_late_plan_without_an_id_does_not_change_an_earlier_turn() -> None:
    reducer, transcript = started()
    apply(reducer, "plan", entries=[{"content": "old"}])
    reducer.end_turn(2.0, stop_reason="end_turn")
    reducer.start_turn([], 3.0)
    reducer.end_turn(4.0, stop_reason="end_turn")
    apply(reducer, "plan", entries=[{"content": "late"}])
    footer = transcript.turn.footer
    assert footer is not None
    assert compact(footer.late_entries)[0]["items"] == [{"content": "late"}]
    assert compact(transcript.turns[1].entries[0])["items"] == [{"content": "old"}]


def test_content_chunks_of_a_tool_call_take_linear_time() -> None:
    reducer, transcript = started(2)
    begin = time.process_time()
    for _ in range(50_000):
        apply(reducer, "tool_call_content_chunk", toolCallId="c", content=content("x"))
    assert time.process_time() - begin < 5
    assert len(the_call(transcript).content) == 50_000


# -- terminals ----------------------------------------------------------------------------------


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.obligation("C36")
@given(st.text(max_size=40), st.lists(st.integers(0, 100), max_size=8))
@settings(deadline=None)
def test_c36_terminal_bytes_cut_anywhere_become_their_text(text: str, cuts: list[int]) -> None:
    data = text.encode()
    reducer, transcript = started(2)
    start = 0
    for end in [*sorted(cut for cut in cuts if cut < len(data)), len(data)]:
        apply(
            reducer,
            "terminal_output_chunk",
            terminalId="t",
            data=base64_of(data[start:end]),
        )
        start = end
    assert transcript.terminals["t"].output == text


def test_terminal_bytes_of_two_terminals_are_not_mixed() -> None:
    reducer, transcript = started(2)
    for part in (slice(0, 1), slice(1, 2)):
        for ident, letter in (("a", "ż"), ("b", "ó")):
            apply(
                reducer,
                "terminal_output_chunk",
                terminalId=ident,
                data=base64_of(letter.encode()[part]),
            )
    assert [transcript.terminals[ident].output for ident in "ab"] == ["ż", "ó"]


@pytest.mark.obligation("C35")
def test_c35_a_snapshot_forgets_half_a_character_of_before() -> None:
    reducer, transcript = started(2)
    apply(reducer, "terminal_output_chunk", terminalId="t", data=base64_of(b"x\xc5"))
    apply(reducer, "terminal_update", terminalId="t", output={"data": base64_of(b"\xbcy")})
    assert transcript.terminals["t"].output == "\ufffdy"


def test_what_is_no_base64_is_shown_as_it_came() -> None:
    reducer, transcript = started(2)
    for data in ("plain text!", "żółć", "="):
        apply(reducer, "terminal_output_chunk", terminalId="t", data=data)
    assert transcript.terminals["t"].output == "plain text!żółć="


def test_version_2_null_clears_a_terminals_fields() -> None:
    reducer, transcript = started(2)
    apply(
        reducer,
        "terminal_update",
        terminalId="t",
        command="ls",
        cwd="/w",
        output={"data": base64_of(b"x" * (TERMINAL_TAIL + 1))},
        exitStatus={"exitCode": 3},
    )
    terminal = transcript.terminals["t"]
    assert (terminal.argv, terminal.cwd, terminal.exit_code) == (["ls"], "/w", 3)
    assert terminal.truncated
    assert not terminal.running
    apply(reducer, "terminal_update", terminalId="t")
    assert terminal.exit_code == 3
    apply(
        reducer,
        "terminal_update",
        terminalId="t",
        command=None,
        cwd=None,
        output=None,
        exitStatus=None,
    )
    assert compact(terminal) == {"terminal_id": "t"}


def test_f40_only_the_tail_of_a_terminals_output_is_kept() -> None:
    reducer, transcript = started(2)
    for number in range(100):
        data = base64_of(f"{number:04d}".encode() * 1000)
        apply(reducer, "terminal_output_chunk", terminalId="t", data=data)
    terminal = transcript.terminals["t"]
    assert len(terminal.output) == TERMINAL_TAIL
    assert terminal.output.endswith("0099")
    assert terminal.truncated


def test_a_change_of_a_terminal_changes_the_tool_call_that_shows_it() -> None:
    reducer, transcript = started(2)
    apply(reducer, "terminal_output_chunk", terminalId="t", data=base64_of(b"early"))
    item = {"type": "terminal", "terminalId": "t"}
    apply(reducer, "tool_call_content_chunk", toolCallId="c", content=item)
    call = the_call(transcript)
    transcript.take_changed()
    apply(reducer, "terminal_output_chunk", terminalId="t", data=base64_of(b"!"))
    assert transcript.take_changed() == [call]
    reducer.end_turn(2.0, stop_reason="end_turn")
    assert not any(isinstance(entry, TerminalEntry) for entry in transcript.entries())


def test_a_terminal_that_no_tool_call_shows_gets_an_entry_at_the_end_of_its_turn() -> None:
    reducer, transcript = started(2)
    apply(reducer, "terminal_output_chunk", terminalId="t", data=base64_of(b"x"))
    assert list(transcript.entries()) == []
    reducer.end_turn(2.0, stop_reason="end_turn")
    shown, _ = transcript.entries()
    assert isinstance(shown, TerminalEntry)
    apply(reducer, "terminal_output_chunk", terminalId="t2", data=base64_of(b"late"))
    footer = transcript.turn.footer
    assert footer is not None
    assert compact(footer.late_entries) == [
        {"entry": "terminal", "late": True, "terminal_id": "t2"}
    ]


def test_f61_the_agent_cannot_change_what_is_shown_of_the_clients_own_terminal() -> None:
    reducer, transcript = started(2)
    terminal = reducer.terminal("t")
    terminal.output, terminal.argv = "real", ["rm"]
    before = compact(terminal)
    apply(reducer, "terminal_update", terminalId="t", command="ls", exitStatus={"exitCode": 0})
    apply(reducer, "terminal_output_chunk", terminalId="t", data=base64_of(b"forged"))
    apply(
        reducer,
        "tool_call_update",
        toolCallId="c",
        content=[{"type": "terminal", "terminalId": "t"}],
        _meta={
            "terminal_output_delta": {"terminal_id": "t", "data": "forged"},
            "terminal_exit": {"terminal_id": "t", "exit_code": 0},
        },
    )
    assert compact(terminal) == before
    assert terminal.shown_by is the_call(transcript)
    assert {entry.kind for entry in unknown(transcript)} == {
        "terminal_update",
        "terminal_output_chunk",
    }


def test_the_clients_terminal_gets_an_entry_once_if_no_tool_call_shows_it() -> None:
    reducer, transcript = started()
    terminal = reducer.terminal("t")
    assert reducer.terminal("t") is terminal
    reducer.show_terminal(terminal)
    reducer.show_terminal(terminal)
    (entry,) = transcript.take_changed()
    reducer.touch_terminal(terminal)
    assert transcript.take_changed() == [entry]


# -- what the session offers --------------------------------------------------------------------


def test_the_same_state_again_is_no_news() -> None:
    reducer, transcript = started()
    for _ in range(2):
        apply(reducer, "available_commands_update", availableCommands=[{"name": "a"}, 5, {}])
        apply(reducer, "current_mode_update", currentModeId="ask")
        apply(reducer, "session_info_update", title="T")
        apply(reducer, "config_option_update", configOptions=[{"id": "m", "currentValue": 1}])
    notices = [entry for entry in transcript.entries() if isinstance(entry, NoticeEntry)]
    assert [(entry.text, entry.revision) for entry in notices] == [
        ("1 slash command", 1),
        ("mode: ask", 1),
        ("m: 1", 1),
    ]
    assert transcript.info.commands == [{"name": "a"}]


def test_a_title_is_kept_bounded_and_is_no_line_of_the_transcript() -> None:
    reducer, transcript = started()
    apply(reducer, "session_info_update", title="T" * 10**6)
    titles = [transcript.info.title]
    for change in ({"updatedAt": "2025-01-01"}, {"title": None}):
        apply(reducer, "session_info_update", **change)
        titles.append(transcript.info.title)
    assert titles == ["T" * NOTICE_TEXT, "T" * NOTICE_TEXT, None]
    assert list(transcript.entries()) == []


def test_a_mode_is_named_as_the_session_named_it() -> None:
    reducer, transcript = started()
    reducer.session_state(session_state({"modes": [{"id": "a", "name": "Ask"}, {"id": "b"}]}))
    apply(reducer, "current_mode_update", currentModeId="a")
    (entry,) = transcript.entries()
    assert isinstance(entry, NoticeEntry)
    assert entry.text == "mode: Ask"
    apply(reducer, "current_mode_update", currentModeId="b")
    assert (entry.text, entry.count) == ("mode: Ask → b (by the agent)", 1)
    reducer.expect("mode", "a")
    apply(reducer, "current_mode_update", currentModeId="a")
    assert entry.text == "mode: b → Ask"


def test_an_option_that_the_user_did_not_set_is_told_as_the_agents_change() -> None:
    reducer, transcript = started()

    def now(model: str, effort: str) -> list[dict[str, Any]]:
        return [
            {"id": "model", "name": "Model", "type": "select", "currentValue": model},
            {"id": "effort", "name": "Effort", "type": "select", "currentValue": effort},
        ]

    apply(reducer, "config_option_update", configOptions=now("small", "low"))
    (entry,) = transcript.entries()
    assert isinstance(entry, NoticeEntry)
    assert entry.text == "Model: small; Effort: low"
    reducer.expect("model", "large")
    apply(reducer, "config_option_update", configOptions=now("large", "high"))
    assert entry.text == "Model: small → large; Effort: low → high"
    reducer.expect_nothing()
    apply(reducer, "config_option_update", configOptions=now("large", "low"))
    assert entry.text == "Effort: high → low (by the agent)"


def test_an_answer_without_modes_keeps_what_updates_said_before() -> None:
    reducer, transcript = started()
    apply(reducer, "current_mode_update", currentModeId="ask")
    reducer.session_state(SessionState("s", [], None, [], [], None))
    assert transcript.info.current_mode == "ask"
    models = [{"modelId": "m", "name": "M"}]
    reducer.session_state(SessionState("s", [], "code", [], models, "m"))
    assert (transcript.info.current_mode, transcript.info.current_model) == ("code", "m")


def test_lines_about_changes_are_bounded() -> None:
    reducer, transcript = started()
    huge = "x" * 10**6
    apply(reducer, "session_info_update", title=huge)
    apply(reducer, "config_option_update", configOptions=[{"id": "m", "currentValue": huge}])
    commands = [{"name": f"{number}{huge[:500]}"} for number in range(1000)]
    apply(reducer, "available_commands_update", availableCommands=commands)
    apply(reducer, "subagent_update", sessionId="c", title=huge, description=huge)
    apply(reducer, "session_message", messageId="m", content=[{"type": "text", "text": huge}])
    apply(reducer, "session_message_chunk", messageId="m", content={"type": "text", "text": huge})
    for entry in transcript.entries():
        assert isinstance(entry, NoticeEntry)
        assert len(entry.text) <= NOTICE_TEXT
        assert len(entry.detail) <= 200 * 82


def test_subagents_are_remembered_in_a_bounded_number() -> None:
    reducer, transcript = started()
    for number in range(SUBAGENTS * 2):
        apply(reducer, "subagent_update", sessionId=f"s{number}", state={"state": "running"})
    assert len(transcript.info.subagents) == SUBAGENTS
    apply(reducer, "subagent_update", sessionId=f"s{SUBAGENTS * 2 - 1}", state=None)
    assert transcript.info.subagents[f"s{SUBAGENTS * 2 - 1}"] == {"state": None}


def test_first_chunk_is_when_the_answer_began_not_when_commands_came() -> None:
    reducer, transcript = started()
    seen: list[float | None] = []
    updates: list[dict[str, Any]] = [
        {"sessionUpdate": "available_commands_update", "availableCommands": []},
        {"sessionUpdate": "usage_update", "used": 1},
        {"sessionUpdate": "tool_call", "toolCallId": "c"},
        {"sessionUpdate": "tool_call", "toolCallId": "d"},
    ]
    for now, update in enumerate(updates):
        reducer.apply(update, float(now))
        seen.append(transcript.turn.first_chunk)
    assert seen == [None, None, 2.0, 2.0]


def test_what_comes_late_does_not_begin_an_answer() -> None:
    reducer, transcript = started()
    reducer.end_turn(5.0, stop_reason="end_turn")
    say(reducer, "late")
    assert transcript.turn.first_chunk is None


# -- what the client did ------------------------------------------------------------------------


def test_only_the_first_decision_about_a_permission_counts() -> None:
    reducer, transcript = started()
    choices = [PermissionChoice("a", "Allow", "allow_once")]
    entry = PermissionEntry(transcript.next_id(), 1, options=choices)
    reducer.ask(entry)
    transcript.take_changed()
    reducer.decide(entry, "allowed", by="user", now=5.0, chosen=0)
    assert transcript.take_changed() == [entry]
    reducer.decide(entry, "denied", by="policy", now=6.0)
    assert transcript.take_changed() == []
    assert (entry.state, entry.decided_by, entry.chosen) == ("allowed", "user", 0)
    assert entry.decided_at == 5.0


def test_notices_with_the_same_key_are_one_line_in_each_turn() -> None:
    reducer, _ = started()
    first = reducer.notice("noise", "one", detail="a")
    assert reducer.notice("noise", "two", detail="b") is first
    assert (first.text, first.detail, first.count) == ("two", "b", 2)
    assert reducer.notice("noise", "three", count=False) is first
    assert (first.detail, first.count) == ("b", 2)
    assert reducer.notice("noise", "the agent's", source="agent") is not first
    reducer.end_turn(1.0, stop_reason="end_turn")
    reducer.start_turn([], 2.0)
    assert reducer.notice("noise", "again") is not first


def test_files_that_the_agent_touched_are_one_entry_until_something_else_comes() -> None:
    reducer, transcript = started()
    for number in range(205):
        reducer.file_event("read", f"/{number}", "served")
    say(reducer, "x")
    reducer.file_event("write", "/w", "refused", "outside")
    entries = [entry for entry in transcript.entries() if isinstance(entry, FilesEntry)]
    assert [len(entry.events) for entry in entries] == [200, 5, 1]
    assert entries[-1].events == [("write", "/w", "refused", "outside")]


# -- history ------------------------------------------------------------------------------------


def test_f29_a_replay_of_100_000_updates_is_a_number_and_the_last_entries() -> None:
    transcript = Transcript()
    reducer = Reducer(transcript)
    reducer.begin_history()
    gc.collect()
    tracemalloc.start()
    for number in range(33_334):
        say(reducer, f"question {number}", "user_message_chunk")
        apply(reducer, "tool_call", toolCallId=f"c{number}", title="t", rawInput={"x": "y" * 50})
        say(reducer, f"answer {number}")
    history = reducer.end_history()
    gc.collect()
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * 2**20
    assert kept < 2**20
    assert history is not None
    assert history.count == 100_002
    assert len(history.entries) == HISTORY_KEPT
    assert compact(history.entries[-1])["parts"] == ["answer 33333"]
    assert list(transcript.entries()) == [history]
    assert transcript.take_changed() == [history]


def test_f29_a_replay_of_one_message_in_many_chunks_is_one_entry() -> None:
    reducer = Reducer(Transcript())
    reducer.begin_history()
    begin = time.process_time()
    for _ in range(50_000):
        say(reducer, "twenty characters ok", "user_message_chunk")
    history = reducer.end_history()
    assert time.process_time() - begin < 3
    assert history is not None
    assert (history.count, len(history.entries)) == (50_000, 1)


def test_while_a_history_is_replayed_the_client_can_still_be_heard() -> None:
    reducer, transcript = play([{"history": True}])
    say(reducer, "old")
    notice = reducer.notice("noise", "live")
    question = PermissionEntry(transcript.next_id(), 0)
    reducer.ask(question)
    assert transcript.take_changed() == [notice, question]
    say(reducer, " text")
    history = reducer.end_history()
    assert history is not None
    assert compact(history.entries) == [{"entry": "message", "parts": ["old text"]}]
    assert list(transcript.entries()) == [notice, question, history]
    ids = [entry.id for entry in (*transcript.entries(), *history.entries)]
    assert len(set(ids)) == len(ids)


def test_what_a_history_says_of_the_session_holds_afterwards() -> None:
    reducer, transcript = started()
    apply(reducer, "current_mode_update", currentModeId="ask")
    reducer.begin_history()
    apply(reducer, "available_commands_update", availableCommands=[{"name": "x"}])
    reducer.end_history()
    assert transcript.info.current_mode == "ask"
    assert transcript.info.commands == [{"name": "x"}]


def test_a_terminal_of_the_history_is_still_known_and_touches_the_history() -> None:
    reducer, transcript = play([{"history": True}], 2)
    item = {"type": "terminal", "terminalId": "t"}
    apply(reducer, "tool_call_update", toolCallId="c", content=[item])
    apply(reducer, "terminal_output_chunk", terminalId="t", data=base64_of(b"old"))
    apply(reducer, "terminal_output_chunk", terminalId="unshown", data=base64_of(b"x"))
    history = reducer.end_history()
    assert history is not None
    assert [compact(entry)["entry"] for entry in history.entries] == ["tool_call", "terminal"]
    assert transcript.terminals["t"].output == "old"
    transcript.take_changed()
    apply(reducer, "terminal_output_chunk", terminalId="t", data=base64_of(b"new"))
    assert transcript.take_changed() == [history]


def test_a_history_without_updates_is_none() -> None:
    reducer, transcript = play([{"history": True}])
    assert reducer.end_history() is None
    assert reducer.end_history() is None
    assert list(transcript.entries()) == []


def test_a_history_that_tells_only_how_things_are_is_not_shown() -> None:
    reducer, transcript = started()
    reducer.begin_history()
    apply(reducer, "available_commands_update", availableCommands=[{"name": "go"}])
    assert reducer.end_history() is not None
    assert list(transcript.entries()) == []
    assert [command["name"] for command in transcript.info.commands] == ["go"]


# -- memory -------------------------------------------------------------------------------------


def memory_of(step: Any, count: int = 100_000, version: int = 1) -> tuple[int, Reducer]:
    """Bytes kept after ``count`` steps."""
    reducer, _ = started(version)
    gc.collect()
    tracemalloc.start()
    for number in range(count):
        step(reducer, number)
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return kept, reducer


@pytest.mark.parametrize(
    "kind", ["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"]
)
@pytest.mark.parametrize("message_id", [{}, {"messageId": "m"}], ids=["no id", "id"])
def test_target_7_100_000_chunks_keep_little_more_than_their_text(
    kind: str, message_id: dict[str, Any]
) -> None:
    kept, reducer = memory_of(
        lambda reducer, number: say(reducer, f"{number:020d}", kind, **message_id)
    )
    assert kept <= 12 * 2**20
    assert texts(reducer.transcript) == ["".join(f"{number:020d}" for number in range(100_000))]


@pytest.mark.parametrize("kind", ["terminal_output_chunk", "_unknown", "tool_call_update"])
def test_target_7_100_000_other_updates_keep_a_bounded_memory(kind: str) -> None:
    kept, _ = memory_of(
        lambda reducer, number: apply(
            reducer, kind, terminalId="t", toolCallId="c", data="YWJj", title=f"{number}"
        ),
        20_000,
        2,
    )
    assert kept <= 2**20


# -- anything -----------------------------------------------------------------------------------

ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "a", "b", "text", "terminal", "content", "diff", "YQ==", "running"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "text",
                    "content",
                    "terminalId",
                    "terminal_id",
                    "data",
                    "planId",
                    "id",
                    "entries",
                    "name",
                    "currentValue",
                    "state",
                    "uri",
                    "exitCode",
                    "resource",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
FIELDS = [
    "messageId",
    "toolCallId",
    "terminalId",
    "planId",
    "compactionId",
    "sessionId",
    "content",
    "title",
    "kind",
    "status",
    "locations",
    "rawInput",
    "rawOutput",
    "name",
    "entries",
    "plan",
    "availableCommands",
    "currentModeId",
    "configOptions",
    "updatedAt",
    "used",
    "size",
    "cost",
    "state",
    "severity",
    "description",
    "summary",
    "error",
    "index",
    "diffs",
    "command",
    "cwd",
    "output",
    "data",
    "exitStatus",
    "_meta",
    "senderSessionId",
]
BLOCK = st.fixed_dictionaries({"type": st.just("text"), "text": st.sampled_from(["a", "b", ""])})
UPDATE = st.fixed_dictionaries(
    {"sessionUpdate": st.sampled_from([*sorted(Reducer(Transcript()).kinds), "_x"]) | ANY_JSON},
    optional={
        name: st.sampled_from(["a", "b"]) | BLOCK | ANY_JSON if name == "content" else ANY_JSON
        for name in FIELDS
    },
)
STEP = UPDATE | st.sampled_from(["prompt", "end", "replay", "replayed", "take", "own"])
# Full state that says what is known already, and text without a character, change nothing.
SILENT = [
    "available_commands_update",
    "current_mode_update",
    "config_option_update",
    "session_info_update",
    "state_update",
]


def fingerprint(reducer: Reducer, transcript: Transcript) -> str:
    replay = reducer._replay
    revisions = [entry.revision for entry in transcript.entries()]
    terminals = [compact(terminal) for terminal in transcript.terminals.values()]
    return repr((revisions, compact(transcript.info), terminals, replay and replay.count))


@settings(max_examples=120, deadline=None)
@given(st.sampled_from([1, 2]), st.lists(STEP, max_size=25))
def test_target_1_no_sequence_of_updates_raises_and_each_leaves_a_trace(
    version: int, steps: list[Any]
) -> None:
    reducer, transcript = started(version)
    now = 0.0
    for step in steps:
        now += 1
        if step == "prompt":
            reducer.start_turn([{"type": "text", "text": "a"}], now)
        elif step == "end":
            reducer.end_turn(now, stop_reason="end_turn")
        elif step == "replay":
            reducer.begin_history()
        elif step == "replayed":
            reducer.end_history()
        elif step == "take":
            transcript.take_changed()
        elif step == "own":
            reducer.terminal("a")
        else:
            before = fingerprint(reducer, transcript)
            given_update = copy.deepcopy(step)
            reducer.apply(step, now)
            assert step == given_update
            block = step.get("content")
            empty = isinstance(block, dict) and block.get("text") == ""
            if step["sessionUpdate"] not in SILENT and not empty:
                assert fingerprint(reducer, transcript) != before
    reducer.end_history()
    # Whatever came, what is kept is JSON and text: it can be shown and saved.
    json.dumps(compact_transcript(transcript), allow_nan=False)
    for entry in transcript.entries():
        if isinstance(entry, MessageEntry):
            assert all(isinstance(part, TextBuffer | dict) for part in entry.parts)
