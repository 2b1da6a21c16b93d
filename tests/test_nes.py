"""Next-edit suggestions: positions and edits, and an agent that makes them.

The methods stand in some drafts of the protocol only: what is sent is held against the models of
the official Python SDK, which has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from acp import schema
from hypothesis import given
from hypothesis import strategies as st

import acp_jupyter
from acp_jupyter.errors import UsageError
from acp_jupyter.protocol import nes

MODELS: dict[str, Any] = {
    "nes/start": schema.StartNesRequest,
    "nes/suggest": schema.SuggestNesRequest,
    "nes/accept": schema.AcceptNesNotification,
    "nes/reject": schema.RejectNesNotification,
    "nes/close": schema.CloseNesRequest,
    "document/didOpen": schema.DidOpenDocumentNotification,
    "document/didChange": schema.DidChangeDocumentNotification,
    "document/didClose": schema.DidCloseDocumentNotification,
    "document/didSave": schema.DidSaveDocumentNotification,
    "document/didFocus": schema.DidFocusDocumentNotification,
}
ALL: dict[str, Any] = {name: {} for name in nes.EVENTS} | {"didChange": {"syncKind": "incremental"}}
TEXT = "a = 1\nb = 2\n"


# -- positions and edits ----------------------------------------------------------------------


@pytest.mark.parametrize("counted", ["utf-8", "utf-16", "utf-32"])
@given(text=st.text(alphabet="a\nä€😀", max_size=40), data=st.data())
def test_a_position_leads_back_to_its_offset(counted: str, text: str, data: Any) -> None:
    offset = data.draw(st.integers(0, len(text)))
    assert nes.offset_of(text, nes.position(text, offset, counted), counted) == offset


def test_characters_are_counted_as_the_agent_does() -> None:
    text = "x\n€😀!"
    counts = {name: nes.position(text, 4, name)["character"] for name in ("utf-8", "utf-16")}
    assert counts == {"utf-8": 7, "utf-16": 3}
    assert nes.position(text, 4, "utf-32") == {"line": 1, "character": 2}
    assert nes.encoding({"positionEncoding": "utf-8"}) == "utf-8"
    assert [nes.encoding({"positionEncoding": value}) for value in (None, "x", 7)] == ["utf-16"] * 3


@given(before=st.text("ab\n", max_size=30), after=st.text("ab\n", max_size=30))
def test_a_change_makes_one_text_of_the_other(before: str, after: str) -> None:
    change = nes.changed(before, after, "utf-16")
    data = {"edits": [{"range": change["range"], "newText": change["text"]}]}
    made = nes.edits(nes.Suggested("1", "edit", "", data), before, "utf-16")
    assert nes.applied(before, made) == after


def place(line: Any, character: Any) -> dict[str, Any]:
    return {"line": line, "character": character}


@pytest.mark.parametrize(
    "edits",
    [
        None,
        [7],
        [{"newText": "x"}],
        [{"range": {"start": place(0, 0), "end": place(9, 0)}, "newText": "x"}],
        [{"range": {"start": place(0, 0), "end": place(0, -1)}, "newText": "x"}],
        [{"range": {"start": place(0, True), "end": place(0, "1")}, "newText": "x"}],
        [{"range": {"start": place(1, 1), "end": place(0, 0)}, "newText": "x"}],
        [{"range": {"start": place(0, 0), "end": place(0, 1)}, "newText": 7}],
        [{"range": {"start": place(0, 0), "end": place(0, 3)}, "newText": "x"}] * 2,
    ],
)
def test_edits_that_do_not_fit_are_refused(edits: Any) -> None:
    with pytest.raises(ValueError, match=r"edit|position|line|text"):
        nes.edits(nes.Suggested("1", "edit", "", {"edits": edits}), TEXT, "utf-16")


@pytest.mark.parametrize("answer", [None, [], {}, {"suggestions": 7}, {"suggestions": [7, {}]}])
def test_what_is_no_suggestion_is_left_out(answer: Any) -> None:
    assert nes.suggestions(answer) == []


# -- an agent that makes them -----------------------------------------------------------------


def suggest(agent: Any) -> None:
    asked = agent.wait(lambda m: m.get("id") == agent.current_id)["params"]
    line = asked["position"]["line"]
    found = {"start": {"line": line, "character": 4}, "end": {"line": line, "character": 5}}
    same = {"kind": "edit", "uri": asked["uri"]}
    agent.reply(
        {
            "suggestions": [
                {**same, "id": "good", "edits": [{"range": found, "newText": "42"}]},
                {**same, "id": "bad", "edits": [{"range": {}, "newText": "42"}]},
                {"id": "far", "kind": "jump", "uri": "file:///other", "position": found["start"]},
            ]
        }
    )


def start(agent: Any) -> None:
    agent.reply({"sessionId": "edits-1"})


def close(agent: Any) -> None:
    agent.reply({})


def connected(made: Any, folder: Path) -> Any:
    return acp_jupyter.connect(list(made.argv), cwd=folder, permissions="deny")


@pytest.fixture
def suggesting(script: Any) -> Iterator[Any]:
    """Makes agents; what they were sent of this is held against the SDK's models."""
    scripts = []

    def make(capabilities: dict[str, Any]) -> Any:
        made = script(capabilities=capabilities, start=start, suggest=suggest, close=close)
        made.older_methods |= set(MODELS)
        scripts.append(made)
        return made

    yield make
    for made in scripts:
        for message in made.received():
            if message.get("method") in MODELS:
                model = MODELS[message["method"]].model_validate(message["params"])
                sent = model.model_dump(mode="json", by_alias=True, exclude_none=True)
                assert sent == message["params"]


def test_an_agent_is_told_of_what_it_wants_and_its_edits_are_applied(
    suggesting: Any, tmp_path: Path
) -> None:
    made = suggesting({"nes": {"events": {"document": ALL}}})
    (tmp_path / "x.py").write_text(TEXT)
    with connected(made, tmp_path) as agent:
        good, jump = agent.suggest("x.py", 2)
        assert (good.kind, good.text, jump.kind, jump.text) == (
            "edit",
            "a = 42\nb = 2\n",
            "jump",
            None,
        )
        assert good.accept() == good.text
        jump.reject("ignored")
        again = agent.suggest("x.py", 10, text=good.text, selection=(0, 3))
        assert again[0].text == "a = 42\nb = 42\n"
        agent.saved("x.py")
        agent.end_suggestions()
    methods = [message["method"] for message in made.received() if message["method"] in MODELS]
    assert methods == [
        *("nes/start", "document/didOpen", "document/didFocus", "nes/suggest", "nes/reject"),
        *("nes/accept", "nes/reject"),
        *("document/didChange", "document/didFocus", "nes/suggest", "nes/reject"),
        *("document/didSave", "document/didClose", "nes/close"),
    ]
    (opened,) = made.received("document/didOpen")
    assert (opened["params"]["languageId"], opened["params"]["text"]) == ("python", TEXT)
    (changed,) = made.received("document/didChange")
    assert changed["params"]["version"] == 2
    assert changed["params"]["contentChanges"][0]["text"] == "42"
    rejected = [message["params"] for message in made.received("nes/reject")]
    assert [(p["id"], p["reason"]) for p in rejected][:2] == [
        ("bad", "cancelled"),
        ("far", "ignored"),
    ]


def test_an_agent_that_wants_no_events_gets_none(suggesting: Any, tmp_path: Path) -> None:
    made = suggesting({"nes": {}})
    with connected(made, tmp_path) as agent:
        assert agent.suggest("new.py", 0, text=TEXT)[0].text == "a = 42\nb = 2\n"
    assert not [m for m in made.received() if m["method"].startswith("document/")]


def test_nothing_is_sent_to_an_agent_that_makes_none(suggesting: Any, tmp_path: Path) -> None:
    made = suggesting({})
    with connected(made, tmp_path) as agent:
        with pytest.raises(UsageError, match="makes no next-edit suggestions"):
            agent.suggest("x.py", 0, text=TEXT)
        with pytest.raises(UsageError, match="cannot be read"):
            agent.suggest("missing.py", 0)
        with pytest.raises(UsageError, match="offsets are from 0"):
            agent.suggest("x.py", 13, text=TEXT)
    assert {m["method"] for m in made.received()} == {"initialize", "session/new"}
