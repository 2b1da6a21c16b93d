from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_jupyter.errors import UsageError
from acp_jupyter.rendering import html
from acp_jupyter.rendering import text as plain_text
from acp_jupyter.session.attachments import (
    Attachment,
    blocks,
    complete_mention,
    find_mentions,
    open_mention,
    sent_items,
)
from acp_jupyter.session.prompt import check_prompt
from acp_jupyter.session.reducer import Reducer
from acp_jupyter.session.transcript import AttachmentsEntry, SentItem, Transcript

from .acp_schema import validate_message

PIXEL = base64.b64encode(
    base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
).decode()

TEXT = Attachment(
    "df", "text", text="a | b", uri="notebook:///variable/df", mime="text/markdown", note="5 rows"
)
FILE = Attachment("a.py", "resource", text="x = 1\n", uri="file:///w/a.py", mime="text/x-python")
IMAGE = Attachment("fig", "image", data=PIXEL, uri="file:///t/fig.png", mime="image/png")
SOUND = Attachment("s.wav", "audio", data="AAAA", uri="file:///w/s.wav", mime="audio/wav")
LINK = Attachment("big.csv", "link", uri="file:///w/big.csv", mime="text/csv", size=10**9)
FOLDER = Attachment("src", "link", uri="file:///w/src")
EVERYTHING = [TEXT, FILE, IMAGE, SOUND, LINK, FOLDER]

CAPABILITIES: list[dict[str, Any]] = [
    {},
    {"image": True},
    {"audio": True},
    {"embeddedContext": True},
    {"image": True, "audio": True, "embeddedContext": True},
    {"image": False, "audio": None, "embeddedContext": "yes"},
]


def types(prompt: list[dict[str, Any]]) -> list[str]:
    return [block["type"] for block in prompt]


def names(text: str) -> list[str]:
    return [mention.target for mention in find_mentions(text)]


# -- blocks -----------------------------------------------------------------------------------


@pytest.mark.obligation("C29")
@pytest.mark.parametrize("capabilities", CAPABILITIES)
def test_c29_attachments_go_in_blocks_that_the_agent_takes_and_the_schema_allows(
    capabilities: dict[str, Any],
) -> None:
    prompt = blocks("Look at @df", EVERYTHING, capabilities)
    assert prompt[0] == {"type": "text", "text": "Look at @df"}
    assert len(prompt) == 1 + len(EVERYTHING)
    check_prompt(prompt, capabilities)
    validate_message(
        "to_agent",
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "session/prompt",
            "params": {"sessionId": "s", "prompt": prompt},
        },
        unstable=False,
    )


@pytest.mark.obligation("C29")
def test_c29_the_best_form_that_the_agent_takes_is_used() -> None:
    everything = {"image": True, "audio": True, "embeddedContext": True}
    rich = ["text", "resource", "resource", "image", "audio", "resource_link", "resource_link"]
    poor = ["text", "text", *["resource_link"] * 5]
    assert types(blocks("x", EVERYTHING, everything)) == rich
    assert types(blocks("x", EVERYTHING, {})) == poor


def test_links_say_what_they_lead_to() -> None:
    assert blocks("", [LINK, FOLDER, FILE], {}) == [
        {
            "type": "resource_link",
            "uri": "file:///w/big.csv",
            "name": "big.csv",
            "mimeType": "text/csv",
            "size": 10**9,
        },
        {"type": "resource_link", "uri": "file:///w/src", "name": "src"},
        {
            "type": "resource_link",
            "uri": "file:///w/a.py",
            "name": "a.py",
            "mimeType": "text/x-python",
            "size": 6,
        },
    ]


def test_inlined_text_is_named_noted_and_fenced_against_fences_within() -> None:
    item = Attachment("doc", "text", text="````\ncode\n````", uri="notebook:///x", note="cut")
    (block,) = blocks("", [item], {})
    assert block["text"] == "\n\n@doc (cut):\n`````\n````\ncode\n````\n`````\n"
    (block,) = blocks(" \n", [FILE], {"embeddedContext": True})
    assert block["resource"] == {
        "uri": "file:///w/a.py",
        "text": "x = 1\n",
        "mimeType": "text/x-python",
    }


def test_a_picture_that_is_no_file_cannot_go_to_an_agent_that_takes_none() -> None:
    item = Attachment("fig", "image", data=PIXEL, mime="image/png")
    with pytest.raises(UsageError, match="takes no image in prompts, and @fig is no file"):
        blocks("x", [item], {})
    assert types(blocks("x", [item], {"image": True})) == ["text", "image"]


# -- mentions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Summarise @df.", ["df"]),
        ("@df, @fig; (@arr) and \"@x\" or '@y'?", ["df", "fig", "arr", "x", "y"]),
        ("Is @df's index sorted?", ["df"]),
        ("**@df** and *@fig*", ["df", "fig"]),
        ("Read @src/a_b.py, then @./c.md!", ["src/a_b.py", "./c.md"]),
        ("@../up.py @~/home.txt @/abs/x @src/", ["../up.py", "~/home.txt", "/abs/x", "src"]),
        ('@"path with spaces.txt".', ["path with spaces.txt"]),
        ("@cell:3, @cell:-1. @cell:x", ["cell:3", "cell:-1", "cell:x"]),
        ("@notebook @error", ["notebook", "error"]),
        ("line one @a\n@b at the start", ["a", "b"]),
        ("请看@df的数据", ["df的数据"]),
        ("@größe", ["größe"]),
        ("me@example.com, a.b+c@x.org, <j-d@host>", []),
        ("https://x.org/@user and npm:pkg/@scope/name", []),
        (r"\@df and \\@df", []),
        ("@ alone, @@df, @. @... @-", []),
        ("`@df` and ``x `@df` y`` and @real", ["real"]),
        ("lone ` tick @df", ["df"]),
        (r"\`@df` is escaped, `a\`@x", ["df", "x"]),
        ("```python\n@decorator\n```\n@after", ["after"]),
        ("~~~\n@in\n```\n@in\n~~~~\n@out", ["out"]),
        ("1. ```\n   @in\n   ```\n@out", ["out"]),
        ("```\n@never closed", []),
        ("`one paragraph\n\n@other` one", ["other"]),
        ('@"" @" " @"no end', []),
    ],
)
def test_mentions_are_found_where_a_reader_sees_them(text: str, expected: list[str]) -> None:
    assert names(text) == expected


@given(st.text(alphabet=st.sampled_from('@a_.:/"`~\\ \n-3中é,'), max_size=60))
def test_a_mention_is_the_part_of_the_text_that_it_says_it_is(text: str) -> None:
    end = 0
    for mention in find_mentions(text):
        assert mention.start >= end
        end = mention.end
        written = f'"{mention.target}"' if mention.quoted else mention.target
        assert text[mention.start : end] == f"@{written}"
        assert mention.target.strip()


NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)


@given(
    name=NAMES,
    before=st.sampled_from(["", " ", "(", "\n", "see ", "*", "[", '"', ", "]),
    after=st.sampled_from(["", " ", ".", ", and", "!", "?", ")", "...", "'s", "\n", ":", ";", "*"]),
)
def test_punctuation_around_a_mention_is_not_part_of_it(name: str, before: str, after: str) -> None:
    assert names(f"{before}@{name}{after}") == [name]


@given(
    local=st.from_regex(r"[A-Za-z0-9._%+-]+", fullmatch=True),
    domain=st.from_regex(r"[a-z0-9-]+(\.[a-z]{2,5}){1,2}", fullmatch=True),
    around=st.sampled_from(["{}", "<{}>", "mail {}.", "({})"]),
)
def test_an_e_mail_address_is_no_mention(local: str, domain: str, around: str) -> None:
    assert names(around.format(f"{local}@{domain}")) == []


@given(st.text(alphabet=st.sampled_from('@df`~ \n"\\.x'), max_size=40))
def test_nothing_in_code_is_a_mention(text: str) -> None:
    fence = "~" * (text.count("~") + 3)
    assert names(f"{fence}\n{text}\n{fence}") == []
    ticks = "`" * (text.count("`") + 1)
    inside = text.replace("\n", " ")
    assert names(f"{ticks} {inside} {ticks}") == []


def test_finding_mentions_is_fast_in_texts_made_to_be_slow() -> None:
    runs = " ".join("`" * (number % 300 + 1) for number in range(3_000))
    for text in ("@" * 200_000, '@"' * 50_000, runs, "@a" * 50_000, "\n".join(["`"] * 50_000)):
        find_mentions(text)  # quadratic work would take minutes and meet the test's time limit


# -- completion -------------------------------------------------------------------------------


def completed(text: str, **known: Any) -> tuple[int, list[str]]:
    arguments = {"names": ["df", "data", "_hidden"], "paths": [], "cells": 12, **known}
    return complete_mention(text, **arguments)


def test_completion_offers_variables_cells_files_and_what_is_always_there() -> None:
    start, matches = completed("Look at @", paths=["data.csv", "src/", "my file.txt"])
    assert start == len("Look at ")
    assert matches == [
        *("@data", "@df", "@cell:", "@notebook", "@error"),
        *("@data.csv", "@src/", '@"my file.txt"'),
    ]


def test_completion_narrows_by_what_is_typed() -> None:
    assert completed("x @d", paths=["data.csv"]) == (2, ["@data", "@df", "@data.csv"])
    assert completed("@_") == (0, ["@_hidden"])
    assert completed("@src/a", paths=["src/a.py", "src/a b.py"]) == (0, ["@src/a.py"])
    assert completed('@"src/a', paths=["src/a b.py", "src/a/"]) == (
        0,
        ['@"src/a b.py"', '@"src/a/'],
    )
    assert completed("@cell:-1", cells=12)[1] == ["@cell:-1"]
    assert completed("@cell:1", cells=12)[1] == ["@cell:12", "@cell:11", "@cell:10", "@cell:1"]
    assert completed("@c", cells=0) == (0, [])


@pytest.mark.parametrize("text", ["plain", "me@exa", "@df ", "`@d", "```\n@d", r"\@d", "x/@d"])
def test_completion_offers_nothing_outside_a_mention(text: str) -> None:
    expected = text != "`@d"  # a lone backtick opens no code yet
    assert (completed(text) == (len(text), [])) is expected
    assert (open_mention(text) is None) is expected


# -- what is shown of it ----------------------------------------------------------------------


def shown(entry: AttachmentsEntry) -> tuple[str, str]:
    return html.render(entry, terminals={}), plain_text.render(entry, terminals={})


def test_what_was_sent_is_shown_folded_with_sizes_and_what_is_missing() -> None:
    transcript = Transcript()
    reducer = Reducer(transcript)
    capabilities = {"image": True}
    reducer.start_turn(blocks("Look", [TEXT, IMAGE, LINK, FOLDER], capabilities), 0.0)
    entry = reducer.sent(sent_items([TEXT, IMAGE, LINK, FOLDER], capabilities))
    assert isinstance(entry, AttachmentsEntry)
    assert transcript.take_changed() == [entry]
    assert transcript.turn.entries == [entry]
    line = (
        "↥ Sent with the prompt: @df (in the text, 5 bytes: 5 rows), @fig (image, 70 bytes), "
        "@big.csv (link, 1000.0 MB), @src (link)"
    )
    source, plain = shown(entry)
    assert plain == line
    assert line in source
    assert "<details>" in source
    assert "<details open" not in source
    assert "a | b" in source
    assert f"data:image/png;base64,{PIXEL}" in source


def test_nothing_sent_shows_nothing() -> None:
    transcript = Transcript()
    assert Reducer(transcript).sent([]) is None
    assert transcript.take_changed() == []


def test_many_attachments_are_named_up_to_a_number_in_the_line_and_all_in_the_fold() -> None:
    items = [SentItem(f"v{number}", {"type": "text", "text": "x"}, 1) for number in range(30)]
    entry = AttachmentsEntry("e1", 1, items=items)
    source, plain = shown(entry)
    assert plain.endswith(", and 22 more")
    assert "@v8" not in plain
    assert "@v29" in source


def test_what_is_shown_of_large_attachments_is_bounded() -> None:
    picture = base64.b64encode(base64.b64decode(PIXEL) + bytes(900_000)).decode()
    block = {"type": "image", "data": picture, "mimeType": "image/png"}
    items = [SentItem(f"fig{number}", block, 900_000) for number in range(4)]
    source, _ = shown(AttachmentsEntry("e1", 1, items=items))
    assert len(source) < 2_010_000
    assert source.count("data:image/png") == 1
    assert source.count("Not shown here") == 3
    assert source.count("@fig3") == 2


def test_attached_text_is_shown_as_it_is_and_never_rendered() -> None:
    item = SentItem("df", {"type": "text", "text": "<script>x</script> **b** \u202e"}, 9, "<b>")
    source, _ = shown(AttachmentsEntry("e1", 1, items=[item]))
    assert "<script>" not in source
    assert "**b**" in source
    assert "⟨U+202E⟩" in source
