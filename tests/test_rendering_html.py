"""Entries as HTML and as plain text: what a reader sees of each."""

from __future__ import annotations

import base64
import re
from html import unescape

import pytest

from acp_jupyter.demo_agent import samples
from acp_jupyter.rendering import html, images, mimebundle, text, words
from acp_jupyter.session import transcript
from acp_jupyter.session.transcript import (
    CompactionEntry,
    Entry,
    FilesEntry,
    FooterEntry,
    HistoryEntry,
    MessageEntry,
    NoticeEntry,
    PermissionChoice,
    PermissionEntry,
    PlanEntry,
    TerminalEntry,
    TerminalState,
    TextBuffer,
    ToolCallEntry,
    UnknownEntry,
)
from tests.hostile import PNG

CWD = "/home/user/project"


def make(entry_type, /, **fields):
    entry = entry_type("e1", 1)
    for name, value in fields.items():
        setattr(entry, name, value)
    return entry


def message(*parts, role="agent"):
    buffered = [TextBuffer(part) if isinstance(part, str) else part for part in parts]
    return make(MessageEntry, role=role, parts=buffered)


def render(entry, **terminals):
    return html.render(entry, terminals=terminals, cwd=CWD)


def read(entry, **terminals):
    """What is seen of the HTML."""
    return unescape(re.sub(r"<[^>]+>", "", render(entry, **terminals)))


def plain(entry, **terminals):
    return text.render(entry, terminals=terminals, cwd=CWD)


def both(entry, **terminals):
    return read(entry, **terminals), plain(entry, **terminals)


# -- messages ---------------------------------------------------------------------------------


@pytest.mark.obligation("C33")
def test_a_message_is_its_markdown_with_its_blocks_in_order():
    entry = message("*one*", {"type": "image", "mimeType": "image/png", "data": PNG}, "two")
    source = render(entry)
    assert source.index("<em>one</em>") < source.index("<img") < source.index("two")
    assert plain(entry) == "*one*\n\n[image: image/png, 70 bytes]\n\ntwo"


def test_a_user_message_is_marked_and_an_echo_of_the_prompt_is_nothing():
    entry = message("hello", role="user")
    assert read(entry).startswith("You")
    assert plain(entry) == "You: hello"
    entry.echo = True
    assert (render(entry), plain(entry)) == ("", "")


def test_a_thought_is_folded_under_its_first_line():
    entry = message("**Looking at it**\n\nThe *details*.", role="thought")
    source = render(entry)
    assert source.startswith("<details><summary>")
    assert "Looking at it" in source.split("</summary>")[0]
    assert "<em>details</em>" in source
    assert plain(entry) == "> **Looking at it**\n>\n> The *details*."
    long = message("word " * 30_000, role="thought")
    assert "characters left out" in read(long)
    assert len(render(long)) < 25_000


# -- tool calls -------------------------------------------------------------------------------


def test_a_tool_call_row_names_kind_title_status_and_place():
    entry = make(
        ToolCallEntry,
        kind="read",
        title="Read `a.py`",
        status="completed",
        locations=[{"path": f"{CWD}/src/a.py", "line": 7}, {"path": "/etc/hosts"}],
    )
    for seen in (read(entry), plain(entry)):
        for part in ("read", "completed", "src/a.py:7", "/etc/hosts"):
            assert part in seen
        assert CWD not in seen
    assert "<code>a.py</code>" in render(entry)
    assert "<details" not in render(entry)


@pytest.mark.parametrize(
    ("status", "ended", "word"),
    [
        ("pending", None, "○ pending"),
        ("in_progress", None, "◐ in progress"),
        ("completed", None, "✓ completed"),
        ("failed", None, "✗ failed"),
        ("cancelled", None, "⊘ cancelled"),
        ("completed", "cancelled", "✓ completed"),
        ("in_progress", "cancelled", "⊘ cancelled"),
        ("in_progress", "end_turn", "◌ unfinished when the turn ended (end_turn)"),
        ("dreaming", None, "• dreaming"),
    ],
)
def test_a_tool_calls_status_also_says_when_it_will_not_go_on(status, ended, word):
    entry = make(ToolCallEntry, title="x", status=status, ended_by_turn=ended)
    assert all(word in seen for seen in both(entry))


def test_what_failed_and_what_changes_files_is_open_and_the_rest_is_folded():
    said = [{"type": "content", "content": {"type": "text", "text": "said"}}]
    changed = [{"type": "diff", "path": "a", "oldText": "1\n", "newText": "2\n"}]
    for status, content, is_open in (
        ("completed", said, False),
        ("in_progress", said, False),
        ("failed", said, True),
        ("completed", changed, True),
    ):
        source = render(make(ToolCallEntry, title="x", status=status, content=content))
        assert re.findall(r"<details( open)?>", source)[0] == (" open" if is_open else "")


def test_input_and_output_are_shown_as_json_and_a_command_as_a_command():
    entry = make(ToolCallEntry, title="x", raw_input={"q": "ü"}, raw_output={"hits": 3})
    for seen in both(entry):
        assert '"q": "ü"' in seen
        assert '"hits": 3' in seen
    for raw_input in (
        {"command": "ls -la", "timeout": 3},
        {"cmd": ["ls", "-la"], "timeout": 3},
        {"command": "ls", "args": ["-la"], "timeout": 3},
    ):
        entry = make(ToolCallEntry, title="x", kind="execute", raw_input=raw_input)
        for seen in both(entry):
            assert "$ ls -la" in seen
            assert '"timeout": 3' in seen
            assert '"command"' not in seen


def test_a_diff_is_shown_with_its_path_counts_and_lines():
    item = {"type": "diff", "path": f"{CWD}/a.py", "oldText": "x\ny\n", "newText": "x\nz\nw\n"}
    for seen in both(make(ToolCallEntry, title="x", content=[item])):
        assert "a.py" in seen
        assert CWD not in seen
        assert "+2 \N{MINUS SIGN}1" in seen
        assert "z" in seen
    assert "new file" in read(
        make(ToolCallEntry, content=[{"type": "diff", "path": "a", "newText": "b\n"}])
    )


def test_a_row_sums_its_diffs_up_and_a_long_diff_waits_to_be_opened():
    long = "".join(f"{number}\n" for number in range(200))
    items = [
        {"type": "diff", "path": "a", "oldText": "x\n", "newText": "y\nz\n"},
        {"type": "diff", "path": "b", "oldText": "", "newText": long},
    ]
    source = render(make(ToolCallEntry, title="x", content=items))
    assert "+202 \N{MINUS SIGN}1" in read(make(ToolCallEntry, title="x", content=items))
    assert re.findall(r"<details( open)?>", source) == [" open", " open", ""]


def test_nothing_that_is_preformatted_scrolls_because_paper_does_not():
    entry = make(
        ToolCallEntry,
        status="failed",
        raw_input="x\n" * 500,
        content=[{"type": "diff", "path": "a", "oldText": "", "newText": "y" * 500}],
    )
    assert "max-height" not in render(entry)
    assert "white-space:pre-wrap" in render(entry)


def test_what_permission_is_asked_for_leaves_room_for_the_choices():
    call = make(ToolCallEntry, title="x", raw_input="x\n" * 500)
    entry = make(PermissionEntry, title="x", tool_call=call)
    before, _, rest = render(entry).partition('<div style="max-height:32em;overflow:auto">')
    assert "x\nx\nx" not in before
    assert "x\nx\nx" in rest.split("Choices: ")[0]


@pytest.mark.obligation("C37")
def test_a_diff_of_version_2_is_its_changes_and_its_patch():
    item = {
        "type": "diff",
        "changes": [
            {"operation": "move", "oldPath": f"{CWD}/a", "path": f"{CWD}/b"},
            {"operation": "add", "path": f"{CWD}/c", "fileType": "binary"},
        ],
        "patch": {"format": "git_patch", "text": "@@ -1 +1 @@\n-old\n+new\n"},
    }
    seen, written = both(make(ToolCallEntry, title="x", content=[item]))
    assert "+1 \N{MINUS SIGN}1" in seen
    for part in ("move a → b", "add c (binary)"):
        assert part in seen
        assert part in written
    assert "1   - old\n  1 + new" in seen
    assert "-old\n+new" in written.replace("\n  ", "\n")
    assert "nothing" in read(make(ToolCallEntry, content=[{"type": "diff", "x": "nothing"}]))


def test_the_last_lines_of_a_terminal_are_seen_and_the_earlier_ones_folded():
    output = "".join(f"line {number}\n" for number in range(100))
    state = TerminalState("t", argv=["make"], output=output, exit_code=2, running=False)
    call = make(
        ToolCallEntry,
        kind="execute",
        status="failed",
        raw_input={"command": "make"},
        content=[{"type": "terminal", "terminalId": "t"}],
    )
    source = render(call, t=state)
    assert source.count("$ make") == 1
    earlier, last = source.partition("<details><summary>")[2].split("</details>", 1)
    assert "70 earlier lines" in earlier
    assert "line 69" in earlier
    assert "line 70\n" in last
    assert "line 99" in last
    state.output = "short\n"
    assert "<details>" not in render(call, t=state)


def test_a_terminal_is_its_command_its_coloured_output_and_its_end():
    state = TerminalState(
        "t",
        argv=["pytest", "a b"],
        cwd="/x",
        output="\x1b[31mF\x1b[0m\n",
        exit_code=1,
        running=False,
    )
    entry = make(ToolCallEntry, title="x", content=[{"type": "terminal", "terminalId": "t"}])
    for shown in (entry, make(TerminalEntry, terminal_id="t")):
        for seen in both(shown, t=state):
            assert "$ pytest 'a b'" in seen
            assert "F" in seen
            assert "exit status 1" in seen
        assert 'style="color:#e75c58">F<' in render(shown, t=state)
    assert "no output yet" in read(entry)
    state.output, state.truncated = "x" * 70_000 + "THE END", True
    assert "earlier output left out" in read(entry, t=state)
    assert len(render(entry, t=state)) < 70_000
    assert read(entry, t=state).count("THE END") == 1


def test_long_parts_are_cut_in_the_middle_with_a_note():
    entry = make(
        ToolCallEntry,
        title="t" * 5_000,
        raw_input={"x": "y" * 100_000},
        raw_output="z" * 100_000,
        content=[{"type": "content", "content": {"type": "text", "text": "w" * 100_000}}],
    )
    assert read(entry).count("characters left out") == 3
    assert len(render(entry)) < 70_000
    assert len(plain(entry)) < 15_000


def test_raw_output_that_repeats_the_content_is_not_shown_twice():
    said = [{"type": "content", "content": {"type": "text", "text": "said"}}]
    assert read(make(ToolCallEntry, title="x", content=said, raw_output="said")).count("said") == 1


# -- content blocks ---------------------------------------------------------------------------


def test_a_checked_raster_is_embedded_under_its_real_type():
    block = {"type": "image", "mimeType": "image/jpeg", "data": PNG}
    assert f'<img src="data:image/png;base64,{PNG}" alt=' in render(message(block))
    assert mimebundle.part_bundle(block) == {
        "image/png": PNG,
        "text/plain": "[image: image/png, 70 bytes]",
    }
    webp = base64.b64encode(b"RIFF\x00\x00\x00\x00WEBPVP8 ").decode()
    bundle = mimebundle.part_bundle({"type": "image", "mimeType": "image/webp", "data": webp})
    assert set(bundle) == {"text/html", "text/plain"}
    assert "data:image/webp" in bundle["text/html"]


@pytest.mark.parametrize(
    ("head", "mime"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBP", "image/webp"),
        (b"RIFF\x00\x00\x00\x00WAVE", "audio/wav"),
        (b"ID3\x04", "audio/mpeg"),
        (b"OggS", "audio/ogg"),
        (b"<svg>", None),
        (b"BM", None),
        (b"", None),
    ],
)
def test_f54_a_media_type_is_what_the_data_begins_with(head, mime):
    assert images.detect(head) == mime


def test_f54_a_large_picture_and_a_drawing_are_not_embedded():
    large = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(6_000_000)).decode()
    assert "larger than 5.2 MB" in read(
        message({"type": "image", "mimeType": "image/png", "data": large})
    )
    svg = base64.b64encode(b"<svg onload=alert(1)>").decode()
    entry = message({"type": "image", "mimeType": "image/svg+xml", "data": svg})
    assert "only PNG, JPEG, GIF and WebP are shown" in read(entry)
    assert "<svg onload=alert(1)>" in read(entry)
    assert "<svg" not in render(entry)


def test_sound_is_playable_if_it_is_sound():
    wav = base64.b64encode(b"RIFF\x00\x00\x00\x00WAVEfmt ").decode()
    assert '<audio controls src="data:audio/wav;base64,' in render(
        message({"type": "audio", "mimeType": "audio/wav", "data": wav})
    )
    assert "<audio" not in render(message({"type": "audio", "mimeType": "audio/wav", "data": PNG}))


def test_resources_show_name_address_type_and_text():
    link = {
        "type": "resource_link",
        "uri": "https://x.org/data.csv",
        "name": "data.csv",
        "mimeType": "text/csv",
        "size": 12_345,
    }
    assert "data.csv text/csv, 12.3 kB" in read(message(link))
    assert 'href="https://x.org/data.csv"' in render(message(link))
    assert plain(message(link)) == "[data.csv: https://x.org/data.csv]"
    local = {"type": "resource_link", "uri": "file:///x/a.py", "name": "a.py"}
    assert "<a" not in render(message(local))
    assert "a.py (file:///x/a.py)" in read(message(local))
    inside = {"uri": "file:///x/a.html", "mimeType": "text/html", "text": "<b>x</b>"}
    for seen in both(message({"type": "resource", "resource": inside})):
        assert "file:///x/a.html" in seen
        assert "<b>x</b>" in seen


def test_f8_content_of_an_unknown_type_is_shown_raw_and_folded():
    entry = message({"type": "hologram", "depth": 3})
    assert "<details><summary>" in render(entry)
    for seen in both(entry):
        assert "unknown type: hologram" in seen
        assert '"depth": 3' in seen


# -- plans ------------------------------------------------------------------------------------


def test_a_plan_is_a_checklist_with_states_and_unusual_priorities():
    items = [
        {"content": "Read", "priority": "high", "status": "completed"},
        {"content": "Write", "priority": "medium", "status": "in_progress"},
        {"content": "Test", "priority": "low", "status": "pending"},
        {"content": "Ship", "status": "dropped"},
    ]
    entry = make(PlanEntry, items=items)
    for seen in both(entry):
        for part in ("✓ Read (high)", "◐ Write", "○ Test (low)", "• Ship"):
            assert part in seen
        assert "medium" not in seen
    assert "1 of 4 done" in read(entry)


@pytest.mark.obligation("C39")
def test_a_plan_may_be_text_an_address_or_gone():
    assert "<em>first</em>" in render(make(PlanEntry, text="*first*"))
    assert 'href="https://x.org/plan"' in render(make(PlanEntry, uri="https://x.org/plan"))
    assert all("dropped" in seen for seen in both(make(PlanEntry, removed=True)))


# -- permissions ------------------------------------------------------------------------------

OPTIONS = [
    PermissionChoice("a", "Yes", "allow_once"),
    PermissionChoice("b", "Yes, always", "allow_always"),
    PermissionChoice("c", "No", "reject_once"),
    PermissionChoice("d", "Never", "reject_always"),
    PermissionChoice("e", "Allow once", "something_else"),
]


def ask(**fields):
    return make(PermissionEntry, **{"title": "Edit hello.py", "options": OPTIONS, **fields})


def test_f43_a_question_has_our_labels_by_kind_and_quotes_the_agents_words():
    for seen in both(ask()):
        for label, option in zip(
            ("Allow once", "Always allow", "Deny", "Always deny", "Choose"), OPTIONS, strict=True
        ):
            assert f"{label} “{option.name}”" in seen
    long = PermissionChoice("a", "x" * 500, "reject_once")
    assert "“" + "x" * 79 + "…”" in read(ask(options=[long]))


def test_f44_deny_is_offered_where_the_agent_offers_none():
    assert "Deny" in read(ask(options=OPTIONS[:1]))
    assert read(ask(options=OPTIONS[:3])).count("Deny") == 1


def test_f38_f53_a_question_shows_the_command_quoted_with_nothing_hidden():
    entry = ask(command=["rm", "-rf", "a b", "x\u202ey"], cwd="/x\u200by", path="/z\x1b[1m")
    for seen in both(entry):
        assert "rm -rf 'a b' 'x⟨U+202E⟩y'" in seen
        assert "/x⟨U+200B⟩y" in seen
        assert "/z⟨U+001B⟩[1m" in seen


def test_a_question_shows_the_tools_input_and_diff():
    call = make(
        ToolCallEntry,
        raw_input={"path": "a.py"},
        content=[{"type": "diff", "path": "a.py", "oldText": "old\n", "newText": "new\n"}],
    )
    for seen in both(ask(tool_call=call)):
        assert '"path": "a.py"' in seen
        assert "old" in seen
        assert "new" in seen


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (
            {"state": "allowed", "chosen": 0, "decided_by": "user"},
            "✓ Allowed once by you after 3.2 s “Yes” — Edit hello.py",
        ),
        (
            {"state": "allowed", "chosen": 1, "decided_by": "policy", "reason": "the policy"},
            "✓ Always allowed by policy “Yes, always” — Edit hello.py (the policy)",
        ),
        (
            {"state": "allowed", "chosen": 4, "decided_by": "user"},
            "✓ Chosen by you after 3.2 s “Allow once” — Edit hello.py",
        ),
        (
            {"state": "denied", "chosen": 2, "decided_by": "user"},
            "✗ Denied by you after 3.2 s — Edit hello.py",
        ),
        (
            {"state": "denied", "chosen": None, "decided_by": "user"},
            "✗ Denied by you after 3.2 s — Edit hello.py",
        ),
        (
            {
                "state": "denied",
                "decided_by": "nobody",
                "reason": "permission needed for Edit hello.py, nobody can answer, denied",
            },
            "✗ Denied: permission needed for Edit hello.py, nobody can answer, denied",
        ),
        ({"state": "cancelled", "decided_by": "cancel"}, "⊘ Cancelled after 3.2 s — Edit hello.py"),
        (
            {"state": "cancelled", "decided_by": "agent"},
            "⊘ Withdrawn by the agent after 3.2 s — Edit hello.py",
        ),
        (
            {"state": "failed", "reason": "two options with one id"},
            "✗ Invalid permission request: two options with one id — Edit hello.py",
        ),
    ],
)
def test_f47_a_decision_stays_readable_as_one_line(fields, line):
    entry = ask(asked_at=1.0, decided_at=4.2, **fields)
    assert both(entry) == (line, line)
    assert "<button" not in render(entry)


def test_a_decision_keeps_the_command_that_was_asked_about():
    entry = ask(title="Run", command=["pytest", "-q"], state="denied", decided_by="user")
    assert read(entry).startswith("✗ Denied by you — Run: pytest -q")


# -- the rest ---------------------------------------------------------------------------------


def test_notices_show_their_level_count_and_folded_detail():
    entry = make(NoticeEntry, level="warning", text="Noise", detail="line 1\nline 2", count=12)
    assert read(entry).startswith("⚠ Noise \N{MULTIPLICATION SIGN}12")
    assert "--jp-warn-color1" in render(entry)
    assert "<details" in render(entry)
    assert plain(entry) == "warning: Noise \N{MULTIPLICATION SIGN}12\n  line 1\n  line 2"
    assert "<details" not in render(make(NoticeEntry, text="x"))
    assert read(make(NoticeEntry, text="x", source="agent")) == "agent: x"


def test_f8_an_unknown_update_is_named_counted_and_folded_raw():
    entry = make(UnknownEntry, kind="new_thing", raw=['{"a": 1}'], count=3)
    for seen in both(entry):
        assert "“new_thing” \N{MULTIPLICATION SIGN}3" in seen
        assert '{"a": 1}' in seen
    assert "<details><summary>" in render(entry)


def test_files_are_an_audit_that_opens_where_something_was_refused():
    entry = make(FilesEntry, events=[("read", f"{CWD}/a.py", "served", "")])
    assert "<details" not in render(entry)
    assert read(entry) == "▤ ✓ read a.py through this notebook"
    assert plain(entry) == "✓ read a.py"
    entry.events.append(("write", f"{CWD}/b.py", "served", ""))
    assert "<details>" in render(entry)
    entry.events.append(("write", "/etc/passwd", "refused", "outside"))
    assert "<details open>" in render(entry)
    assert all("✗ write refused: /etc/passwd (outside)" in seen for seen in both(entry))


def test_a_compaction_shows_its_state_and_folded_summary():
    entry = make(CompactionEntry, status="failed", summary=[TextBuffer("*so far*")], error="full")
    for seen in both(entry):
        assert "✗ failed full" in seen
        assert "so far" in seen
    assert "<details" in render(entry)


def test_f29_a_replayed_session_is_folded_and_bounded():
    entries = [message(f"message {n} " + "word " * 2_000) for n in range(200)]
    entry = make(HistoryEntry, count=100_000, entries=entries)
    source = render(entry)
    assert "100,000 updates" in source.split("</summary>")[0]
    assert source.startswith("<details")
    assert len(source) + len(plain(entry)) < 450_000
    for seen in both(entry):
        assert "message 199" in seen
        assert "message 0 " not in seen


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("refusal", "The agent refused; this turn was dropped from its history."),
        ("max_tokens", "limit of tokens"),
        ("max_turn_requests", "limit of model requests"),
        ("cancelled", "Cancelled. What had arrived is kept."),
        ("exploded", "Unknown stop reason “exploded”."),
    ],
)
def test_a_turn_that_did_not_end_well_says_so(reason, words):
    entry = make(FooterEntry, stop_reason=reason, duration=1.0)
    for seen in both(entry):
        assert words in seen
        assert f"{reason} · 1.0 s" in seen


def test_the_footer_is_one_small_line_with_what_the_agent_reported():
    usage = {
        "totalTokens": 1234,
        "used": 12_000,
        "size": 200_000,
        "cost": {"amount": 0.0123, "currency": "USD"},
    }
    entry = make(FooterEntry, stop_reason="end_turn", duration=3.21, usage=usage)
    line = "end_turn · 3.2 s · 1,234 tokens · context 6 % of 200,000 · $0.01"
    assert both(entry) == (line, f"[{line}]")
    entry.usage = {"inputTokens": 10, "outputTokens": 2, "cost": {"amount": 3, "currency": "EUR"}}
    assert read(entry) == "end_turn · 3.2 s · tokens 10 in, 2 out · 3.00 EUR"
    entry.usage = {"totalTokens": "many", "used": True, "cost": "free"}
    assert read(entry) == "end_turn · 3.2 s"
    failed = make(FooterEntry, stop_reason=None, error="agent 'x' exited with code 17", duration=90)
    for seen in both(failed):
        assert "agent 'x' exited with code 17" in seen
        assert "failed · 1 min 30 s" in seen


def test_f22_late_entries_are_shown_below_the_footer():
    entry = make(FooterEntry, stop_reason="end_turn", late_entries=[message("too late")])
    for seen in both(entry):
        footer, late = re.split("After the end of the turn:?", seen)
        assert "end_turn" in footer
        assert "too late" in late


# -- all of them ------------------------------------------------------------------------------


def test_every_type_of_entry_is_rendered():
    kinds = [kind for kind in vars(transcript).values() if isinstance(kind, type)]
    kinds = [kind for kind in kinds if issubclass(kind, Entry) and kind is not Entry]
    assert len(kinds) == 14
    for kind in kinds:
        bundle = mimebundle.bundle(kind("e1", 1), terminals={}, cwd=CWD)
        assert set(bundle) == {"text/html", "text/plain"}
        assert type(bundle["text/html"]) is str


def test_structured_entries_are_kept_from_the_typesetter():
    call = make(ToolCallEntry, title="$a$ and $b$", raw_input={"x": "$c$"})
    assert render(call).startswith('<div class="mathjax_ignore tex2jax_ignore"')


def test_paths_and_durations_read_well():
    assert words.relative("/a/b/c.py", "/a/b/") == "c.py"
    assert words.relative("/a/bc/d.py", "/a/b") == "/a/bc/d.py"
    assert words.relative("C:\\a\\b.py", "C:\\a") == "b.py"
    assert words.relative("/a", "") == "/a"
    assert [words.seconds(value) for value in (0.04, 59.94, 61, 3_700)] == [
        "0.0 s",
        "59.9 s",
        "1 min 1 s",
        "1 h 1 min",
    ]


def test_the_bundled_agents_sample_image_is_shown():
    data = base64.b64encode(samples.png()).decode()
    bundle = mimebundle.part_bundle({"type": "image", "mimeType": "image/png", "data": data})
    assert bundle["image/png"] == data
