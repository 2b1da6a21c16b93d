"""When changes are published: at once after a pause, then 20 times a second at most."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
import trio
import trio.testing

from acp_jupyter.client.session import Session
from acp_jupyter.display import Bundle
from acp_jupyter.display.output import Output
from acp_jupyter.display.pump import BYTES_PER_SECOND, INTERVAL, Pump
from acp_jupyter.errors import ACPError, UsageError
from acp_jupyter.rendering import entrydata
from acp_jupyter.services.permissions import Permissions
from acp_jupyter.session.cells import MAX_SOURCE
from acp_jupyter.session.transcript import KEPT_TURNS, ProposedCell, Turn


class TimedSink:
    """Keeps what was published when, on trio's clock."""

    def __init__(self) -> None:
        self.sent: list[tuple[float, str, Bundle]] = []

    def display(
        self, data: Bundle, *, display_id: str, update: bool, metadata: Bundle | None = None
    ) -> None:
        self.sent.append((trio.current_time(), display_id, data))

    def show(self, data: Bundle) -> None:
        self.sent.append((trio.current_time(), "", data))

    def stream(self, text: str) -> None:
        self.sent.append((trio.current_time(), "", {"text/plain": text}))

    @property
    def times(self) -> list[float]:
        """Moments of publication: what goes out together counts once."""
        return sorted({at for at, _, _ in self.sent})

    @property
    def size(self) -> int:
        return sum(len(value) for _, _, data in self.sent for value in data.values())


class SilentAgent:
    """The agent's side of a session in which the test alone says what has arrived."""

    name = "silent"

    prompt_capabilities: Mapping[str, Any] = {}
    last_received = 0.0

    async def request(self, method: str, params: Any) -> Any:
        await trio.sleep_forever()

    async def wait_gone(self) -> ACPError:
        await trio.sleep_forever()
        raise AssertionError

    def notify(self, method: str, params: Any) -> None: ...

    def withdraw(self, method: str) -> None: ...

    def kill(self, error: ACPError) -> None: ...


class Stream:
    """A session that is fed by hand, and its pump."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.session = Session(
            SilentAgent(),
            "s",
            "/",
            permissions=Permissions(),
            environment={},
            nursery=nursery,
            version=1,
        )
        self.pump = Pump(self.session)
        self.began = trio.current_time()

    def turn(self) -> tuple[Turn, TimedSink]:
        sink = TimedSink()
        turn = self.session.reducer.start_turn([{"type": "text", "text": "Hi"}], 0.0)
        output = Output(
            sink,
            "updates",
            prefix="p",
            cwd="/",
            terminals=self.session.transcript.terminals,
        )
        self.pump.begin(turn, output)
        return turn, sink

    def say(self, text: str, **fields: Any) -> None:
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        self.session.take([update | fields])
        self.session.on_batch()

    def end(self) -> None:
        self.session.reducer.end_turn(1.0, stop_reason="end_turn")
        self.session.on_batch()
        self.pump.flush()


@asynccontextmanager
async def open_stream() -> AsyncIterator[Stream]:
    async with trio.open_nursery() as nursery:
        stream = Stream(nursery)
        nursery.start_soon(stream.pump.run)
        yield stream
        nursery.cancel_scope.cancel()


def run(function: Any) -> None:
    """On a clock that jumps to the next deadline when all tasks wait."""
    trio.run(function, clock=trio.testing.MockClock(autojump_threshold=0))


def test_the_first_change_goes_out_at_once() -> None:
    async def main() -> None:
        async with open_stream() as stream:
            _, sink = stream.turn()
            await trio.sleep(5)
            started = trio.current_time()
            stream.say("Hello")
            await trio.testing.wait_all_tasks_blocked()
            assert sink.times == [started]

    run(main)


def test_a_change_after_a_pause_goes_out_at_once_again() -> None:
    async def main() -> None:
        async with open_stream() as stream:
            _, sink = stream.turn()
            moments = []
            for _ in range(5):
                await trio.sleep(2 * INTERVAL)
                moments.append(trio.current_time())
                stream.say("word ")
            await trio.sleep(1)
            assert sink.times == moments

    run(main)


def test_a_steady_stream_is_published_20_times_a_second_and_no_chunk_is_lost() -> None:
    async def main() -> None:
        async with open_stream() as stream:
            _, sink = stream.turn()
            await trio.sleep(1)
            for number in range(2000):
                stream.say(f"c{number} ")
                await trio.sleep(0.001)
            stream.end()
            text = "".join(
                data["text/plain"]
                for data in {ident: data for _, ident, data in sink.sent}.values()
            )
            assert [int(word[1:]) for word in text.split() if word.startswith("c")] == list(
                range(2000)
            )
            times = sink.times
            gaps = [late - early for early, late in pairwise(times)]
            assert min(gaps[:-1]) >= INTERVAL * 0.999, "the last one is the end of the turn"
            assert 35 <= len(times) <= 42

    run(main)


def test_the_last_state_is_published_before_the_turn_is_over() -> None:
    async def main() -> None:
        async with open_stream() as stream:
            _, sink = stream.turn()
            stream.say("first")
            await trio.testing.wait_all_tasks_blocked()
            stream.say(" and last")
            stream.end()  # no time passes
            assert any("first and last" in data["text/plain"] for _, _, data in sink.sent)
            assert "end_turn" in sink.sent[-1][2]["text/plain"]

    run(main)


def test_large_publications_are_paced_by_their_bytes() -> None:
    async def main() -> None:
        async with open_stream() as stream:
            _, sink = stream.turn()
            await trio.sleep(1)
            for number in range(200):
                stream.say(f"Paragraph {number}. " + "word " * 4000 + "\n\n")
                await trio.sleep(0.01)
            await trio.sleep(60)
            assert sink.size > 4_000_000
            assert len(sink.times) > 3
            for early, late in pairwise(sink.times):
                size = sum(len(v) for at, _, d in sink.sent if at == early for v in d.values())
                assert late - early >= 0.999 * max(INTERVAL, size / BYTES_PER_SECOND)

    run(main)


def test_a_late_change_goes_to_the_output_of_its_turn() -> None:
    async def main() -> None:
        async with open_stream() as stream:
            _, first = stream.turn()
            call = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Look"}
            stream.session.take([{**call, "status": "in_progress"}])
            stream.session.on_batch()
            stream.end()
            before = len(first.sent)
            _, second = stream.turn()
            update = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"}
            stream.session.take([update])
            stream.session.on_batch()
            stream.say("For the second cell")
            await trio.sleep(1)
            assert len(first.sent) > before
            assert all("Look" not in data["text/plain"] for _, _, data in second.sent)
            assert all("second cell" not in data["text/plain"] for _, _, data in first.sent)

    run(main)


def test_a_message_that_grows_after_another_entry_was_shown_is_published() -> None:
    async def main() -> None:
        async with open_stream() as stream:
            _, sink = stream.turn()
            stream.say("One ", messageId="m")
            await trio.sleep(1)
            plan = {"content": "step", "priority": "medium", "status": "pending"}
            stream.session.take([{"sessionUpdate": "plan", "entries": [plan]}])
            stream.session.on_batch()
            await trio.sleep(1)
            stream.say("two", messageId="m")
            await trio.sleep(1)
            shown = {ident: data["text/plain"] for _, ident, data in sink.sent}
            text = "".join(shown.values())
            assert text.count("One") == 1
            assert "two" in text

    run(main)


def test_outputs_of_turns_long_ago_are_forgotten() -> None:
    async def main() -> None:
        async with open_stream() as stream:
            for _ in range(KEPT_TURNS + 5):
                stream.turn()
                stream.end()
            assert len(stream.pump._outputs) == KEPT_TURNS

    run(main)


@pytest.mark.parametrize("pause", [0.0, 0.02])
def test_a_flush_counts_as_a_publication(pause: float) -> None:
    async def main() -> None:
        async with open_stream() as stream:
            _, sink = stream.turn()
            await trio.sleep(1)
            stream.say("one ")
            stream.pump.flush()
            flushed = trio.current_time()
            await trio.sleep(pause)
            stream.say("two")
            await trio.sleep(1)
            assert sink.times[0] == flushed
            assert sink.times[1] == pytest.approx(flushed + INTERVAL)

    run(main)


def test_a_burst_of_entries_is_paced_and_complete_before_the_turn_is_over() -> None:
    async def main() -> None:
        async with open_stream() as stream:
            _, sink = stream.turn()
            for number in range(3000):
                call = {"toolCallId": f"c{number}", "title": f"call {number}"}
                stream.session.take([{"sessionUpdate": "tool_call", **call}])
            stream.session.reducer.end_turn(1.0, stop_reason="end_turn")
            stream.session.on_batch()
            await stream.pump.drain()
            assert len({ident for _, ident, _ in sink.sent}) == len(sink.sent) == 3001
            times = [time for time, *_ in sink.sent]
            for time in sink.times:
                assert sum(time <= other < time + 0.5 for other in times) < 1000

    run(main)


def test_a_drain_that_is_cancelled_publishes_the_rest_at_once() -> None:
    async def main() -> None:
        async with open_stream() as stream:
            _, sink = stream.turn()
            for number in range(1000):
                call = {"toolCallId": f"c{number}", "title": f"call {number}"}
                stream.session.take([{"sessionUpdate": "tool_call", **call}])
            with trio.CancelScope() as scope:
                scope.cancel()
                await stream.pump.drain()
            assert len(sink.sent) == 1000

    run(main)


def test_a_proposed_cell_that_is_marked_is_shown_so_in_its_place() -> None:
    async def main() -> None:
        async with open_stream() as stream:
            _, sink = stream.turn()
            session = stream.session
            entry = session.propose_cells([ProposedCell("python", "x = 1")])
            stream.end()
            ident = f"{session.display_prefix}-{entry.id}"
            assert session.mark_cell(ident, 0, "run")
            assert not session.mark_cell(f"acp-other-{entry.id}", 0, "run")
            await trio.sleep(1)
            shown = [data for _, name, data in sink.sent if name == f"p-{entry.id}"]
            states = [data[entrydata.MIME]["cells"][0]["state"] for data in shown]
            assert states == ["proposed", "run"]
            for index, state in ((1, "run"), (-1, "run"), (0, "burnt")):
                with pytest.raises(UsageError):
                    session.mark_cell(ident, index, state)  # type: ignore[arg-type]

    run(main)


def test_cells_that_cannot_be_proposed_are_refused() -> None:
    async def main() -> None:
        async with open_stream() as stream:
            stream.turn()
            for cells in ([], [ProposedCell("python", "x" * (MAX_SOURCE + 1))]):
                with pytest.raises(UsageError, match="proposed"):
                    stream.session.propose_cells(cells)
            assert not stream.session.transcript.dirty

    run(main)
