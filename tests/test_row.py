"""The outputs of a cell: an item each, gathered only where a question would not be seen."""

from __future__ import annotations

from typing import Any

from acp_jupyter.display.row import RECENT, SEEN, Row
from acp_jupyter.rendering import entrydata


class Cell:
    """What a frontend shows: outputs in the order of their first publication."""

    def __init__(self) -> None:
        self.outputs: dict[str, dict[str, Any]] = {}
        self.data: dict[str, list[object]] = {}
        self.sent = 0
        self.row = Row(self.publish)

    def publish(self, name: str, bundle: dict[str, Any], update: bool, data: list[object]) -> None:
        assert update == (name in self.outputs)
        self.outputs[name] = bundle
        self.data[name] = data
        self.sent += 1

    def put(
        self,
        item: str,
        text: str = "",
        *,
        urgent: bool = False,
        apart: bool = False,
        data: object = None,
        structured: bool = False,
        **more: str,
    ) -> None:
        html = f"<p>{text or item}</p>"
        bundle: dict[str, Any] = {"text/html": html, "text/plain": text or item, **more}
        if structured:
            bundle[entrydata.MIME] = {"id": item}
        self.row.put(item, bundle, urgent=urgent, apart=apart, data=data)

    def lines(self) -> list[str]:
        shown = (output["text/plain"] for output in self.outputs.values())
        return [line for text in shown if text for line in text.split("\n")]

    def place(self, text: str) -> int:
        return next(n for n, o in enumerate(self.outputs.values()) if text in o["text/plain"])


def test_items_are_outputs_of_their_own_sent_again_only_when_they_change() -> None:
    cell = Cell()
    for number in range(100):
        cell.put(f"i{number}")
        cell.put(f"i{number}")
    assert len(cell.outputs) == cell.sent == 100
    cell.put("i7", "changed")
    assert cell.sent == 101
    assert cell.place("changed") == 7


def test_an_urgent_item_is_among_the_outputs_that_are_seen_and_the_order_stays() -> None:
    cell = Cell()
    items = [f"i{number}" for number in range(100)]
    for item in items:
        cell.put(item)
    cell.put("question", urgent=True, widget="view")
    assert cell.place("question") == RECENT
    assert cell.lines() == [*items, "question"]
    for number in range(30):
        cell.put(f"later{number}")
    later = [f"later{number}" for number in range(30)]
    assert cell.lines() == [*items, "question", *later]
    assert len(cell.outputs) == 100  # those that were left empty are used again


def test_an_item_that_was_gathered_still_changes_in_its_place() -> None:
    cell = Cell()
    for number in range(SEEN):
        cell.put(f"i{number}")
    cell.put("question", urgent=True, widget="view")
    cell.put("i3", "changed")
    assert cell.lines()[2:5] == ["i2", "changed", "i4"]
    cell.put("question", "answered")
    assert cell.lines()[-1] == "answered"


def test_what_cannot_be_joined_keeps_an_output_of_its_own() -> None:
    cell = Cell()
    for number in range(SEEN - 10):
        cell.put(f"i{number}")
    cell.put("picture", image="x")
    for number in range(20):
        cell.put(f"j{number}")
    cell.put("question", urgent=True, widget="view")
    pictures = [output for output in cell.outputs.values() if "image" in output]
    assert len(pictures) == 1
    assert cell.lines()[SEEN - 10] == "picture"
    assert cell.place("question") < SEEN


def test_outputs_put_together_have_no_data_of_one_of_their_entries() -> None:
    cell = Cell()
    for number in range(60):
        cell.put(f"i{number}", structured=True)
    cell.put("question", urgent=True, widget="view")
    assert cell.place("question") < SEEN
    with_data = [output for output in cell.outputs.values() if entrydata.MIME in output]
    assert len(with_data) == RECENT - 1
    for output in with_data:
        assert output["text/plain"] == output[entrydata.MIME]["id"]
    assert cell.lines() == [*(f"i{number}" for number in range(60)), "question"]


def test_what_is_apart_is_never_put_together_with_others() -> None:
    cell = Cell()
    for number in range(60):
        cell.put(f"i{number}", apart=number == 20)
    cell.put("question", urgent=True, widget="view")
    assert [o for o in cell.outputs.values() if o["text/plain"] == "i20"]
    assert cell.lines()[-1] == "question"


def test_more_open_questions_than_are_seen_are_all_published() -> None:
    cell = Cell()
    for number in range(2 * SEEN):
        cell.put(f"q{number}", urgent=True, widget="view")
    assert cell.lines() == [f"q{number}" for number in range(2 * SEEN)]


def test_data_stays_with_the_output_that_shows_its_item_also_where_items_are_put_together() -> None:
    cell = Cell()
    for number in range(60):
        cell.put(f"i{number}", data=number)
    assert cell.data["i7"] == [7]
    cell.put("question", urgent=True, widget="view")
    kept = [value for data in cell.data.values() for value in data]
    assert sorted(map(str, kept)) == sorted(map(str, range(60)))
