from __future__ import annotations

import gc
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_jupyter.session.reducer import Reducer
from acp_jupyter.session.transcript import (
    KEPT_TURNS,
    Entry,
    FooterEntry,
    NoticeEntry,
    PermissionEntry,
    TextBuffer,
    ToolCallEntry,
    Transcript,
    Turn,
)


def transcript_with_turns(count: int) -> Transcript:
    transcript = Transcript()
    for number in range(1, count + 1):
        transcript.turns.append(Turn(number))
    return transcript


def notice(transcript: Transcript, turn: int) -> NoticeEntry:
    entry = NoticeEntry(transcript.next_id(), turn)
    transcript.add(entry)
    return entry


# -- text buffers -------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.text(max_size=5), max_size=30), st.sets(st.integers(0, 30)))
def test_a_text_buffer_is_its_chunks_joined_however_often_it_is_read(
    chunks: list[str], reads: set[int]
) -> None:
    buffer = TextBuffer()
    for index, chunk in enumerate(chunks):
        buffer.append(chunk)
        if index in reads:
            assert str(buffer) == "".join(chunks[: index + 1])
    assert str(buffer) == "".join(chunks)
    assert len(buffer) == buffer.length == len("".join(chunks))
    assert bool(buffer) == bool("".join(chunks))


def test_the_end_of_a_text_buffer_can_be_replaced() -> None:
    buffer = TextBuffer("ab")
    buffer.append("cd")
    buffer.replace_end(3, "BCDE")
    buffer.append("f")
    assert str(buffer) == "aBCDEf"
    assert len(buffer) == 6
    buffer.replace_end(0, "g")
    assert str(buffer) == "aBCDEfg"


def test_target_7_a_text_buffer_keeps_100_000_chunks_in_little_more_than_their_text() -> None:
    tracemalloc.start()
    buffer = TextBuffer()
    for number in range(100_000):
        buffer.append(f"{number:020d}")
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1.5 * len(buffer)


# -- changes ------------------------------------------------------------------------------------


def test_changed_entries_are_taken_once_in_the_order_of_their_first_change() -> None:
    transcript = transcript_with_turns(1)
    first, second = notice(transcript, 1), notice(transcript, 1)
    transcript.touch(first)
    dirty = [transcript.dirty]
    assert transcript.take_changed() == [first, second]
    dirty.append(transcript.dirty)
    assert dirty == [True, False]
    assert transcript.take_changed() == []
    transcript.touch(second)
    assert transcript.take_changed() == [second]
    assert (first.revision, second.revision) == (2, 2)


def test_ids_are_unique_and_the_clients_own() -> None:
    transcript = Transcript()
    other = Transcript(transcript.ids)
    assert [transcript.next_id(), other.next_id(), transcript.next_id()] == ["e1", "e2", "e3"]


def test_f22_an_entry_after_the_end_is_shown_in_the_footer_of_its_turn() -> None:
    transcript = transcript_with_turns(1)
    footer = FooterEntry(transcript.next_id(), 1)
    transcript.add(footer)
    transcript.turn.footer = footer
    transcript.turns.append(Turn(2))
    transcript.take_changed()
    late = notice(transcript, 1)
    assert late.late
    assert footer.late_entries == [late]
    assert transcript.take_changed() == [footer]
    transcript.touch(late)
    assert transcript.take_changed() == [footer]
    assert list(transcript.entries()) == [footer, late]


# -- tool calls ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "finished"),
    [
        ("pending", False),
        ("in_progress", False),
        ("paused", False),
        ("completed", True),
        ("failed", True),
        ("cancelled", True),
        ("_odd", False),
    ],
)
def test_a_tool_call_is_finished_by_its_status_or_by_the_end_of_its_turn(
    status: str, finished: bool
) -> None:
    call = ToolCallEntry("e1", 1, status=status)
    assert call.finished == finished
    call.ended_by_turn = "cancelled"
    assert call.finished


# -- forgetting ---------------------------------------------------------------------------------


def test_f30_turns_beyond_the_limit_are_forgotten_with_all_that_points_into_them() -> None:
    transcript = transcript_with_turns(1)
    reducer = Reducer(transcript)
    terminals = transcript.terminals  # a publisher holds on to it
    for number in range(KEPT_TURNS + 5):
        reducer.start_turn([], float(number))
        for update in (
            {"sessionUpdate": "tool_call", "toolCallId": f"c{number}", "title": "t"},
            {"sessionUpdate": "plan_update", "plan": {"planId": f"p{number}", "content": "x"}},
            {"sessionUpdate": "compaction_update", "compactionId": f"k{number}", "status": "s"},
            {"sessionUpdate": "terminal_output_chunk", "terminalId": f"t{number}", "data": "YQ=="},
            {
                "sessionUpdate": "agent_message_chunk",
                "messageId": f"m{number}",
                "content": {"type": "text", "text": "x"},
            },
        ):
            reducer.apply(update, float(number))
    oldest = transcript.turns[0].number
    assert len(transcript.turns) == KEPT_TURNS
    for index in (transcript.tool_calls, transcript.messages, transcript.plans):
        assert len(index) == KEPT_TURNS
        assert all(entry.turn >= oldest for entry in index.values())
    assert len(transcript.compactions) == KEPT_TURNS
    assert transcript.terminals is terminals
    assert len(terminals) == KEPT_TURNS
    assert all(entry.turn >= oldest for entry in transcript.take_changed())


def test_f30_a_terminal_that_is_still_heard_of_is_kept() -> None:
    transcript = Transcript()
    reducer = Reducer(transcript)
    for number in range(KEPT_TURNS * 2):
        reducer.start_turn([], float(number))
        reducer.terminal("server").output += "."
    assert transcript.terminals["server"].output == "." * KEPT_TURNS * 2


@pytest.mark.parametrize("published", [True, False])
def test_f30_a_thousand_turns_grow_by_less_than_a_mebibyte(published: bool) -> None:
    transcript = Transcript()
    reducer = Reducer(transcript)

    def run_turn(number: int) -> None:
        reducer.start_turn([{"type": "text", "text": "x" * 1000}], float(number))
        for kind, body in (
            ("agent_thought_chunk", {"content": {"type": "text", "text": "y" * 1000}}),
            ("tool_call", {"toolCallId": f"c{number}", "title": "t", "rawInput": ["z" * 1000]}),
            ("agent_message_chunk", {"content": {"type": "text", "text": f"{number}" * 500}}),
            ("_unknown", {"x": "w" * 1000}),
            ("terminal_output_chunk", {"terminalId": f"t{number}", "data": "dd" * 500}),
        ):
            reducer.apply({"sessionUpdate": kind, **body}, float(number))
        reducer.end_turn(float(number), stop_reason="end_turn")
        if published:
            transcript.take_changed()

    for number in range(100):
        run_turn(number)
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(100, 1100):
        run_turn(number)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 2**20


def test_a_change_in_a_forgotten_turn_is_harmless() -> None:
    transcript = Transcript()
    reducer = Reducer(transcript)
    reducer.start_turn([], 0.0)
    entry = PermissionEntry(transcript.next_id(), 1)
    reducer.ask(entry)
    for number in range(KEPT_TURNS + 1):
        reducer.start_turn([], float(number))
    reducer.decide(entry, "cancelled", by="cancel", now=100.0)
    assert entry.state == "cancelled"
    assert isinstance(transcript.turn_of(entry), Turn)


def test_the_end_of_a_long_replay_is_kept_and_all_that_points_to_the_rest_is_dropped() -> None:
    transcript = Transcript()
    reducer = Reducer(transcript)
    for number in range(10):
        reducer.notice(f"n{number}", "x")
        reducer.apply({"sessionUpdate": f"_u{number}"}, 0.0)
        reducer.apply({"sessionUpdate": "tool_call", "toolCallId": f"c{number}"}, 0.0)
    transcript.forget_early_entries(6)
    kept: list[Entry] = transcript.turn.entries
    assert len(kept) == 6
    assert list(transcript.tool_calls) == ["c8", "c9"]
    assert list(transcript.turn.notices.values()) == [kept[0], kept[3]]
    assert list(transcript.turn.unknown.values()) == [kept[1], kept[4]]
    assert set(transcript.take_changed()) == set(kept)
