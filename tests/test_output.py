"""The output of one cell, in the three ways of publishing, from a transcript written by updates."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from acp_jupyter.display import Bundle, Publish
from acp_jupyter.display.output import MESSAGE_BYTES, Output
from acp_jupyter.rendering import entrydata
from acp_jupyter.session.reducer import Reducer
from acp_jupyter.session.transcript import (
    CellsEntry,
    Entry,
    PermissionChoice,
    PermissionEntry,
    Transcript,
)


class RecordingSink:
    """Keeps what a frontend would have been sent."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, str, Any]] = []

    def display(
        self, data: Bundle, *, display_id: str, update: bool, metadata: Bundle | None = None
    ) -> None:
        self.messages.append(("update" if update else "display", display_id, data))

    def show(self, data: Bundle) -> None:
        self.messages.append(("show", "", data))

    def stream(self, text: str) -> None:
        self.messages.append(("stream", "", text))

    @property
    def streamed(self) -> str:
        assert {kind for kind, _, _ in self.messages} <= {"stream"}
        return "".join(text for _, _, text in self.messages)

    @property
    def final(self) -> dict[str, Bundle]:
        """Outputs as a frontend has them at the end; an update never comes before its display."""
        shown: dict[str, Bundle] = {}
        for kind, ident, data in self.messages:
            assert (kind == "update") == (ident in shown), (kind, ident)
            shown[ident] = data
        return shown


class Cell:
    """One turn, its output, and a pump worked by hand."""

    def __init__(self, publish: Publish, extras: Any = None) -> None:
        self.sink = RecordingSink()
        self.transcript = Transcript()
        self.reducer = Reducer(self.transcript)
        self.reducer.start_turn([{"type": "text", "text": "Hi"}], 0.0)
        self.output = Output(
            self.sink,
            publish,
            prefix="p",
            cwd="/project",
            terminals=self.transcript.terminals,
            **({"extras": extras} if extras is not None else {}),
        )

    def say(self, text: str, kind: str = "agent_message_chunk") -> None:
        self.update(sessionUpdate=kind, content={"type": "text", "text": text})

    def update(self, **fields: Any) -> None:
        self.reducer.apply(fields, 1.0)

    def flush(self) -> None:
        for entry in self.transcript.take_changed():
            self.output.show(entry)

    def end(self) -> None:
        self.reducer.end_turn(2.0, stop_reason="end_turn")
        self.flush()


def plan(*statuses: str) -> dict[str, Any]:
    items = [
        {"content": f"step {number}", "priority": "medium", "status": status}
        for number, status in enumerate(statuses)
    ]
    return {"sessionUpdate": "plan", "entries": items}


def call(status: str, **fields: Any) -> dict[str, Any]:
    kind = "tool_call" if "title" in fields else "tool_call_update"
    return {"sessionUpdate": kind, "toolCallId": "t", "status": status, **fields}


def question() -> PermissionEntry:
    options = [PermissionChoice("a", "Yes", "allow_once")]
    return PermissionEntry("e90", 1, question_id="e90", title="Write", options=options)


# -- updates ------------------------------------------------------------------------------------


def test_each_entry_is_an_output_of_its_own_that_updates_in_place() -> None:
    cell = Cell("updates")
    cell.update(**plan("pending", "pending"))
    cell.flush()
    cell.say("Working")
    cell.update(**plan("completed", "pending"))
    cell.flush()
    cell.end()
    kinds = [kind for kind, _, _ in cell.sink.messages]
    assert sorted(kinds) == ["display", "display", "display", "update"]
    plain = [data["text/plain"] for data in cell.sink.final.values()]
    assert "✓ step 0" in plain[0]
    assert plain[1].strip() == "Working"
    assert "end_turn" in plain[2]
    assert all(ident.startswith("p-") for ident in cell.sink.final)


def test_what_has_not_changed_is_not_sent_again() -> None:
    cell = Cell("updates")
    cell.update(**plan("pending"))
    cell.flush()
    cell.update(**plan("pending"))
    cell.flush()
    assert len(cell.sink.messages) == 1


def test_a_long_answer_is_cut_and_its_frozen_parts_are_sent_once() -> None:
    cell = Cell("updates")
    answer = "".join(f"Paragraph {number} of the long answer.\n\n" for number in range(2000))
    for start in range(0, len(answer), 50):
        cell.say(answer[start : start + 50])
        if start % 1000 == 0:
            cell.flush()
    cell.end()
    outputs = list(cell.sink.final.values())[:-1]
    assert len(outputs) > 20
    assert "\n\n".join(data["text/plain"].strip() for data in outputs) == answer.strip()
    sent = sum(len(data["text/plain"]) for _, _, data in cell.sink.messages)
    assert sent < 3 * len(answer)


def test_a_message_goes_on_in_its_place_after_another_entry_was_shown() -> None:
    cell = Cell("updates")
    cell.update(
        sessionUpdate="agent_message_chunk", messageId="m", content={"type": "text", "text": "One "}
    )
    cell.flush()
    cell.update(**call("completed", title="Look", kind="read"))
    cell.flush()
    cell.update(
        sessionUpdate="agent_message_chunk", messageId="m", content={"type": "text", "text": "two"}
    )
    cell.flush()
    cell.end()
    text = "".join(data["text/plain"] for data in cell.sink.final.values())
    assert text.count("One") == 1
    assert "two" in text


def test_an_image_between_texts_is_an_output_between_them() -> None:
    cell = Cell("updates")
    cell.say("Before")
    cell.update(
        sessionUpdate="agent_message_chunk",
        content={"type": "resource_link", "uri": "https://example.org/x", "name": "a link"},
    )
    cell.say("After")
    cell.flush()
    cell.say(" all")
    cell.flush()
    plain = [data["text/plain"].strip() for data in cell.sink.final.values()]
    assert plain[0] == "Before"
    assert "a link" in plain[1]
    assert plain[2] == "After all"
    assert [kind for kind, _, _ in cell.sink.messages].count("update") == 1


def test_the_echo_of_the_prompt_is_not_shown() -> None:
    for publish in ("updates", "append", "final"):
        cell = Cell(publish)
        cell.say("Hi", kind="user_message_chunk")
        cell.flush()
        assert cell.sink.messages == []


def test_a_late_change_changes_the_output_where_it_is() -> None:
    cell = Cell("updates")
    cell.update(**call("in_progress", title="Look", kind="read"))
    cell.flush()
    cell.end()
    before = len(cell.sink.messages)
    cell.update(**call("completed"))
    cell.flush()
    assert [kind for kind, _, _ in cell.sink.messages[before:]] == ["update"]
    assert any("completed" in data["text/plain"] for data in cell.sink.final.values())


def test_a_late_entry_is_shown_inside_the_footer() -> None:
    cell = Cell("updates")
    cell.say("Done")
    cell.end()
    before = dict(cell.sink.final)
    cell.say("One more thing")
    cell.flush()
    after = cell.sink.final
    assert list(after) == list(before), "no new output below the footer"
    assert "One more thing" in list(after.values())[-1]["text/plain"]


def test_a_widgets_view_is_beside_the_text_while_the_question_is_open() -> None:
    views: dict[Entry, Bundle] = {}
    cell = Cell("updates", lambda entry: views.get(entry, {}))
    entry = question()
    views[entry] = {"application/x-view": {"model_id": "1"}}
    cell.reducer.ask(entry)
    cell.flush()
    views.clear()
    cell.reducer.decide(entry, "allowed", by="user", now=1.5, chosen=0)
    cell.flush()
    (_, _, asked), (kind, _, decided) = cell.sink.messages
    assert set(asked) == {"application/x-view", "text/html", "text/plain"}
    assert kind == "update"
    assert set(decided) == {entrydata.MIME, "text/html", "text/plain"}


# -- data and proposed cells --------------------------------------------------------------------


def test_structured_entries_have_their_data_where_outputs_are_updated_in_place() -> None:
    cell = Cell("updates")
    cell.update(**plan("pending"))
    cell.update(**call("in_progress", title="Look", locations=[{"path": "/project/a.py"}]))
    cell.say("Done")
    cell.end()
    shown = cell.sink.final
    data = {ident: bundle.get(entrydata.MIME, {}) for ident, bundle in shown.items()}
    assert [found.get("type") for found in data.values()] == ["plan", "tool_call", None, "footer"]
    assert all(found["id"] == ident for ident, found in data.items() if found)
    assert list(data.values())[1]["locations"] == [{"path": "a.py"}]


@pytest.mark.parametrize("publish", ["append", "final"])
def test_there_is_no_data_where_outputs_are_compared_or_printed(publish: Publish) -> None:
    cell = Cell(publish)
    cell.update(**call("completed", title="Look"))
    cell.end()
    assert not [data for _, _, data in cell.sink.messages if entrydata.MIME in data]


def test_proposed_cells_are_an_output_before_the_footer_that_follows_their_state() -> None:
    cell = Cell("updates")
    cell.reducer.proposes_cells = True
    cell.say("```python\nx = 1\n```\n")
    cell.end()
    *_, cells, footer = cell.sink.final.values()
    assert cells[entrydata.MIME]["cells"][0]["state"] == "proposed"
    assert footer[entrydata.MIME]["type"] == "footer"
    entry = next(entry for entry in cell.transcript.entries() if isinstance(entry, CellsEntry))
    cell.reducer.mark_cell(entry, 0, "inserted")
    cell.flush()
    kind, _, data = cell.sink.messages[-1]
    assert kind == "update"
    assert data[entrydata.MIME]["cells"][0]["state"] == "inserted"
    assert "✓ inserted" in data["text/html"]


def test_the_code_of_an_answer_is_not_printed_twice() -> None:
    cell = Cell("append")
    cell.reducer.proposes_cells = True
    cell.say("```python\nprint(1)\n```\n")
    cell.flush()
    cell.end()
    assert cell.sink.streamed.count("print(1)") == 1
    assert "proposed" not in cell.sink.streamed


def test_two_hundred_tool_calls_are_little_more_with_their_data_than_without() -> None:
    cell = Cell("updates")
    for number in range(200):
        for status, fields in (("pending", {"title": f"Read file {number}"}), ("completed", {})):
            update = call(status, kind="read", **fields)
            cell.update(**{**update, "toolCallId": f"t{number}"})
            cell.flush()
    bundles = [data for _, _, data in cell.sink.messages]
    assert len(bundles) == 400
    data = sum(len(json.dumps(bundle.pop(entrydata.MIME))) for bundle in bundles)
    rest = sum(MESSAGE_BYTES + len(json.dumps(bundle)) for bundle in bundles)
    assert data < 0.3 * rest


def test_what_data_takes_counts_as_sent() -> None:
    cell = Cell("updates")
    cell.reducer.proposes_cells = True
    code = "x = 1  # " + "y" * 10_000
    cell.say(f"```python\n{code}\n```\n")
    cell.end()
    shown = sum(len(json.dumps(data)) for _, _, data in cell.sink.messages)
    assert 0.8 * shown < cell.output.sent < 1.3 * shown + 500 * len(cell.sink.messages)


# -- append -------------------------------------------------------------------------------------


def test_text_is_appended_as_it_comes_and_nothing_is_said_twice() -> None:
    cell = Cell("append")
    for word in ("One ", "two ", "three"):
        cell.say(word)
        cell.flush()
    cell.end()
    pieces = [text for _, _, text in cell.sink.messages]
    assert pieces[:3] == ["One ", "two ", "three"]
    assert cell.sink.streamed.count("One") == 1
    assert cell.sink.streamed.endswith("]\n")


def test_an_entry_is_printed_once_it_is_settled() -> None:
    cell = Cell("append")
    cell.update(**plan("pending", "pending"))
    cell.update(**call("pending", title="Look around", kind="read"))
    cell.flush()
    assert cell.sink.messages == []
    cell.update(**call("completed"))
    cell.flush()
    cell.update(**plan("completed", "completed"))
    cell.flush()
    cell.end()
    assert cell.sink.streamed.count("Look around") == 1
    assert cell.sink.streamed.count("✓ step 1") == 1


def test_what_is_never_finished_is_printed_at_the_end_of_the_turn() -> None:
    cell = Cell("append")
    cell.update(**plan("completed", "pending"))
    cell.update(**call("in_progress", title="Look around", kind="read"))
    cell.flush()
    cell.end()
    assert "Look around" in cell.sink.streamed
    assert "step 1" in cell.sink.streamed


def test_an_entry_begins_on_a_line_of_its_own() -> None:
    cell = Cell("append")
    cell.say("I look")
    cell.flush()
    cell.update(**call("completed", title="Look around", kind="read"))
    cell.flush()
    cell.say("I saw")
    cell.flush()
    cell.end()
    assert "I look\n[read] Look around" in cell.sink.streamed
    assert "\nI saw" in cell.sink.streamed


def test_a_thought_that_grows_is_printed_whole() -> None:
    cell = Cell("append")
    for word in ("First ", "second ", "third"):
        cell.say(word, kind="agent_thought_chunk")
        cell.flush()
    cell.say("The answer")
    cell.flush()
    cell.end()
    assert "> First second third" in cell.sink.streamed
    assert cell.sink.streamed.count("First") == 1


def test_a_message_that_goes_on_after_another_entry_is_continued_below() -> None:
    cell = Cell("append")
    for text, status in (("One ", "completed"), ("two", "")):
        cell.update(
            sessionUpdate="agent_message_chunk",
            messageId="m",
            content={"type": "text", "text": text},
        )
        cell.flush()
        if status:
            cell.update(**call(status, title="Look around", kind="read"))
            cell.flush()
    cell.end()
    assert cell.sink.streamed.count("One") == 1
    assert cell.sink.streamed.index("two") > cell.sink.streamed.index("Look around")


def test_a_notice_that_counts_on_is_not_lost() -> None:
    cell = Cell("append")
    cell.reducer.notice("noise", "The agent sent noise.")
    cell.flush()
    cell.end()
    assert cell.sink.streamed.count("The agent sent noise.") == 1


def test_what_comes_after_the_end_is_printed_too() -> None:
    cell = Cell("append")
    cell.say("Done")
    cell.end()
    cell.say("One more thing")
    cell.flush()
    cell.say(" or two")
    cell.flush()
    assert re.search(r"One more thing\s+or two", cell.sink.streamed)
    assert cell.sink.streamed.count("end_turn") == 1


def test_a_tool_call_that_ends_late_is_printed_again() -> None:
    cell = Cell("append")
    cell.update(**call("in_progress", title="Look around", kind="read"))
    cell.end()
    cell.update(**call("completed"))
    cell.flush()
    assert "unfinished when the turn ended" in cell.sink.streamed
    assert "Look around — ✓ completed" in cell.sink.streamed


def test_a_thought_of_many_lines_is_quoted_line_by_line() -> None:
    cell = Cell("append")
    for piece in ("One\ntw", "o\n", "three"):
        cell.say(piece, kind="agent_thought_chunk")
        cell.flush()
    cell.end()
    assert "> One\n> two\n> three\n" in cell.sink.streamed


# -- final --------------------------------------------------------------------------------------


def test_each_entry_is_published_once_when_the_turn_ends() -> None:
    cell = Cell("final")
    cell.update(**plan("pending"))
    cell.say("Working ")
    cell.flush()
    cell.update(**plan("completed"))
    cell.say("on it")
    cell.flush()
    assert cell.sink.messages == []
    cell.end()
    assert {kind for kind, _, _ in cell.sink.messages} == {"display"}
    plain = [data["text/plain"] for _, _, data in cell.sink.messages]
    assert "✓ step 0" in plain[0]
    assert "Working" in plain[1]
    assert "end_turn" in plain[-1]


def test_a_long_message_is_one_final_output() -> None:
    cell = Cell("final")
    cell.say("A paragraph of the answer.\n\n" * 500)
    cell.end()
    assert len(cell.sink.messages) == 2


def test_what_comes_before_the_first_turn_does_not_wait_for_its_end() -> None:
    sink, transcript = RecordingSink(), Transcript()
    reducer = Reducer(transcript)
    output = Output(sink, "final", prefix="p", cwd="/", terminals=transcript.terminals)
    reducer.notice("restarted", "The agent was started again.")
    for entry in transcript.take_changed():
        output.show(entry)
    assert [kind for kind, _, _ in sink.messages] == ["display"]


@pytest.mark.parametrize("publish", ["append", "final"])
def test_no_update_is_ever_sent_to_a_client_that_ignores_them(publish: Publish) -> None:
    cell = Cell(publish)
    cell.update(**call("in_progress", title="Look", kind="read"))
    cell.flush()
    cell.end()
    cell.update(**call("completed"))
    cell.say("late")
    cell.flush()
    assert "update" not in {kind for kind, _, _ in cell.sink.messages}


# -- what cannot be rendered --------------------------------------------------------------------


class Unrenderable(dict[str, Any]):
    """Stands for any mistake in rendering."""

    def get(self, key: str, default: Any = None) -> Any:
        raise ZeroDivisionError(key)


@pytest.mark.parametrize("publish", ["updates", "append", "final"])
def test_an_entry_that_cannot_be_rendered_is_a_notice_and_the_rest_is_shown(
    publish: Publish,
) -> None:
    cell = Cell(publish)
    cell.update(**call("completed", title="Broken"))
    cell.transcript.tool_calls["t"].content = [Unrenderable()]
    cell.flush()
    cell.transcript.touch(cell.transcript.tool_calls["t"])
    cell.flush()
    cell.say("What follows.")
    cell.end()
    shown = [
        data if kind == "stream" else data["text/plain"] for kind, _, data in cell.sink.messages
    ]
    whole = "\n".join(shown)
    assert whole.count("ToolCallEntry could not be shown") == 1
    assert "ZeroDivisionError" in whole
    assert "What follows." in whole
    assert "end_turn" in whole


def test_numbers_that_are_no_amounts_are_left_out_of_the_footer() -> None:
    for usage in ({"used": 10**400, "size": 1}, {"used": 1, "size": 10**400}):
        cell = Cell("updates")
        cost = {"amount": 10**400, "currency": "USD"}
        cell.update(sessionUpdate="usage_update", cost=cost, **usage)
        cell.end()
        plain = list(cell.sink.final.values())[-1]["text/plain"]
        assert "end_turn" in plain
        assert "context" not in plain
        assert "$" not in plain
