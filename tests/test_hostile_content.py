"""Whatever an agent sends, wherever it lands: no script, no request, no control, no deceit."""

from __future__ import annotations

import ast
import base64
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import get_args

import pytest

from acp_jupyter.protocol.forms import Choice, Field
from acp_jupyter.rendering import elements, highlighting, html, images, mimebundle, text
from acp_jupyter.session.transcript import (
    AttachmentsEntry,
    CellsEntry,
    CompactionEntry,
    ElicitationEntry,
    ElicitationState,
    FilesEntry,
    FooterEntry,
    HistoryEntry,
    MessageEntry,
    NoticeEntry,
    PermissionChoice,
    PermissionEntry,
    PlanEntry,
    ProposedCell,
    SentItem,
    TerminalEntry,
    TerminalState,
    TextBuffer,
    ToolCallEntry,
    UnknownEntry,
)
from tests import hostile

RENDERING = Path(html.__file__).parent

NAMES = """
    a audio b blockquote br code details div em h1 h2 h3 h4 h5 h6 hr i img li ol p pre s span
    strong summary table tbody td th thead tr ul
"""
TAGS = set(NAMES.split())
ATTRIBUTES = {
    "a": {"href", "rel", "target"},
    "img": {"src", "alt", "style"},
    "audio": {"src", "controls"},
    "details": {"open", "style"},
    "ol": {"start"},
    "b": {"style"},
    "div": {"class", "style"},
    "span": {"class", "style"},
    "pre": {"style"},
    "td": {"style"},
    "th": {"style"},
}
CLASSES = {"highlight", "mathjax_ignore", "tex2jax_ignore"} | set(highlighting.CLASSES)
# What our styles are made of: no url(), no position, nothing that covers the page.
PROPERTIES = (
    "color|background|border-left|border-left-color|border-radius|margin|margin-bottom|padding"
    "|opacity|font-size|font-weight|font-style|text-decoration|text-align|display|overflow"
    "|white-space|max-height|max-width|font-family|overflow-wrap"
)
COLOUR = r"rgba\([0-9.,]+\)|#[0-9a-f]{3,6}"
VALUE = rf"(?:var\(--jp-[a-z0-9-]+,(?:{COLOUR}|monospace)\)|{COLOUR}|[a-z0-9.% -]+)+"
STYLE = re.compile(rf"(?:(?:{PROPERTIES}):{VALUE}(?:;|\Z))+")
MEDIA = re.compile(
    r"data:(image/(png|jpeg|gif|webp)|audio/(wav|mpeg|ogg));base64,[A-Za-z0-9+/]+={0,2}"
)
WEB = re.compile(r"https?://[^/?#@\s]+([/?#][^\s\"<>]*)?")
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff"
    "\U000e0000-\U000e0fff]"
)


class Checker(HTMLParser):
    """Fails on the first thing that is not on the list."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.stack = []
        self.shown = []

    def handle_starttag(self, tag, attrs):
        assert tag in TAGS, f"tag {tag}"
        for name, value in attrs:
            assert name in ATTRIBUTES.get(tag, ()), f"attribute {name} of {tag}"
            self.check_value(tag, name, value or "")
        if tag not in ("br", "hr", "img"):
            self.stack.append(tag)

    def check_value(self, tag, name, value):
        assert not UNSEEN.search(value)
        if name == "class":
            assert set(value.split()) <= CLASSES, value
        elif name == "style":
            assert STYLE.fullmatch(value), value
        elif name == "src":
            assert MEDIA.fullmatch(value), value[:80]
        elif name == "href":
            assert WEB.fullmatch(value), value
        elif name == "target":
            assert value == "_blank"
        elif name == "rel":
            assert "noopener" in value
            assert "noreferrer" in value
        elif name == "start":
            assert value.isdigit()

    def handle_endtag(self, tag):
        assert self.stack, f"closes {tag}, which is not open"
        assert self.stack.pop() == tag

    def handle_data(self, data):
        assert UNSEEN.findall(data) == []
        self.shown.append(data)

    def handle_comment(self, data):
        pytest.fail(f"comment {data!r}")

    def handle_decl(self, decl):
        pytest.fail(f"declaration {decl!r}")

    def handle_pi(self, data):
        pytest.fail(f"processing instruction {data!r}")

    def unknown_decl(self, data):
        pytest.fail(f"section {data!r}")


def check_html(source):
    checker = Checker()
    checker.feed(source)
    checker.close()
    assert checker.stack == []
    source.encode()  # can be sent
    return "".join(checker.shown)


def check_text(plain):
    assert UNSEEN.findall(plain) == []
    plain.encode()


def check_math(source):
    """What MathJax would take for mathematics: it scans the runs of text outside pre and code."""
    ignored = r'<(pre|code)\b.*?</\1>|<(div|span) class="mathjax_ignore.*'
    for run in re.split(r"<[^>]*>", re.sub(ignored, "<x>", source, flags=re.DOTALL)):
        for found in re.finditer(
            r"\$.+?\$|\\\(.+?\\\)|\\\[.+?\\\]|\\begin.+?\\end", run, re.DOTALL
        ):
            macros = r"\\(href|style|class|cssId|def|data|csname|renew|unicode|require|html)"
            assert not re.search(macros, found[0])


def make(entry_type, /, **fields):
    entry = entry_type("e1", 1)
    for name, value in fields.items():
        setattr(entry, name, value)
    return entry


def entries_with(bad):
    """One entry for every place where an agent's text can land."""
    call = make(
        ToolCallEntry,
        tool_call_id=bad,
        title=bad,
        name=bad,
        kind=bad,
        status=bad,
        locations=[{"path": bad, "line": 3}, {"path": bad, "line": bad}],
        raw_input={bad: [bad]},
        raw_output=bad,
        content=[
            {"type": "content", "content": {"type": "text", "text": bad}},
            {"type": "diff", "path": bad, "oldText": f"same\n{bad}", "newText": f"same\n{bad}x"},
            {
                "type": "diff",
                "changes": [{"operation": bad, "path": bad, "oldPath": bad, "fileType": bad}],
                "patch": {"format": "git_patch", "text": f"@@ -1 +1 @@\n-{bad}\n+{bad}"},
            },
            {"type": "terminal", "terminalId": "bad"},
            {"type": bad, bad: bad},
        ],
        ended_by_turn=bad,
    )
    options = [PermissionChoice(bad, bad, bad), PermissionChoice(bad, bad, "allow_once")]
    ask = {
        "title": bad,
        "kind": bad,
        "command": [bad, bad],
        "cwd": bad,
        "path": bad,
        "options": options,
        "tool_call": call,
        "reason": bad,
    }
    execute = make(ToolCallEntry, kind="execute", status="failed", raw_input={"command": bad})
    execute.raw_input["args"] = [bad]
    words = [make(MessageEntry, role=role, parts=[TextBuffer(bad)]) for role in ("agent", "user")]
    items = [{"content": bad, "priority": bad, "status": bad}]
    sent = [
        SentItem(bad, {"type": "text", "text": bad}, 3, bad),
        SentItem(bad, {"type": "resource_link", "uri": bad, "name": bad, "mimeType": bad}),
        SentItem(bad, {"type": "resource", "resource": {"uri": bad, "text": bad}}, 3, bad),
        SentItem(bad, {"type": "image", "data": bad, "mimeType": bad, "uri": bad}),
    ]
    late = [*words, call, make(NoticeEntry, text=bad)]
    fields = [
        Field(bad, "text", bad, description=bad, pattern=bad, default=bad),
        Field("several", "choices", bad, choices=(Choice(bad, bad, bad), Choice("b", bad))),
    ]
    elicit = {
        "agent": bad,
        "message": bad,
        "title": bad,
        "description": bad,
        "fields": fields,
        "answers": {bad: bad, "several": [bad]},
        "reason": bad,
    }
    usage = {"totalTokens": bad, "cost": {"amount": 1, "currency": bad}, "used": bad}
    return [
        *words,
        make(MessageEntry, role="thought", parts=[TextBuffer(bad)]),
        call,
        execute,
        make(PlanEntry, items=items),
        make(PlanEntry, text=bad),
        make(PlanEntry, uri=bad),
        make(PermissionEntry, **ask),
        make(PermissionEntry, **ask, state="allowed", chosen=0, decided_by="user"),
        make(PermissionEntry, **ask, state="denied", chosen=None, decided_by="nobody"),
        make(PermissionEntry, **ask, state="cancelled", decided_by="agent"),
        make(PermissionEntry, **ask, state="failed"),
        *(
            make(ElicitationEntry, **elicit, mode=mode, state=state, url=url)
            for mode in ("form", "url")
            for state in get_args(ElicitationState)
            for url in (bad, f"https://host.example/{bad}", f"https://{bad}/")
        ),
        make(FilesEntry, events=[("read", bad, "served", bad), ("write", bad, "refused", bad)]),
        make(AttachmentsEntry, items=sent),
        make(TerminalEntry, terminal_id="bad"),
        make(NoticeEntry, key=bad, text=bad, detail=bad, level="error", source="agent", count=2),
        make(UnknownEntry, kind=bad, raw=[bad, bad], count=2),
        make(CompactionEntry, status=bad, summary=[TextBuffer(bad)], error=bad),
        make(HistoryEntry, count=3, entries=late),
        make(CellsEntry, cells=[ProposedCell("python", bad), ProposedCell(bad, bad, "run")]),
        make(FooterEntry, stop_reason=bad, usage=usage, late_entries=late),
        make(FooterEntry, stop_reason=None, error=bad),
    ]


def terminals_with(bad):
    state = TerminalState("bad", argv=[bad, bad], cwd=bad, output=bad, signal=bad, running=False)
    return {"bad": state}


@pytest.mark.parametrize("number", range(len(hostile.TEXTS)))
def test_f51_f52_f53_hostile_text_is_only_text_in_every_entry_and_field(number):
    bad = hostile.TEXTS[number]
    terminals = terminals_with(bad)
    for entry in entries_with(bad):
        source = html.render(entry, terminals=terminals, cwd="/work")
        check_html(source)
        check_math(source)
        check_text(text.render(entry, terminals=terminals, cwd="/work"))


@pytest.mark.parametrize("number", range(len(hostile.TEXTS)))
def test_f51_f52_f53_hostile_text_is_only_text_in_a_message_segment(number):
    bundle = mimebundle.message_bundle(hostile.TEXTS[number])
    assert set(bundle) == {"text/html", "text/plain"}
    check_html(bundle["text/html"])
    check_math(bundle["text/html"])
    check_text(bundle["text/plain"])


@pytest.mark.parametrize("number", range(len(hostile.BLOCKS)))
def test_f54_hostile_content_is_source_text_or_a_checked_raster(number):
    block = hostile.BLOCKS[number]
    message = make(MessageEntry, parts=[block])
    call = make(ToolCallEntry, content=[{"type": "content", "content": block}, block])
    for entry in (message, call):
        check_html(html.render(entry, terminals={}))
        check_text(text.render(entry, terminals={}))
    bundle = mimebundle.part_bundle(block)
    assert set(bundle) <= {"text/html", "text/plain", "image/png", "image/jpeg", "image/gif"}
    check_html(bundle.get("text/html", ""))
    check_text(bundle["text/plain"])
    if "image/png" in bundle:
        assert images.detect(base64.b64decode(bundle["image/png"])[:16]) == "image/png"


def test_the_corpus_is_large_and_has_no_duplicates():
    assert len(hostile.TEXTS) + len(hostile.BLOCKS) >= 250
    assert len(set(hostile.TEXTS)) == len(hostile.TEXTS)


def test_the_checker_sees_what_it_is_there_to_see():
    for bad in (
        "<script>1</script>",
        "<p onclick='x'>",
        "<div data-commandlinker-command='x'>",
        "<img src='https://hostile.invalid/p.png'>",
        "<img src='data:image/svg+xml;base64,AAAA'>",
        "<a href='javascript:x'>",
        "<div style='background:url(x)'>",
        "<div style='position:fixed'>",
        "<div class='jp-Dialog'>",
        "<div id='x'>",
        "<!-- x -->",
        "a\u202eb",
    ):
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            check_html(bad)
    with pytest.raises(AssertionError):
        check_math("<p>$\\href{javascript:1}{x}$</p>")


def test_a_message_is_still_readable_after_all_that():
    shown = check_html(mimebundle.message_bundle("a <b>bold</b> & `<i>`")["text/html"])
    assert shown.strip() == "a <b>bold</b> & <i>"


# -- by construction --------------------------------------------------------------------------

MAKERS = {"elements.py", "ansi.py", "highlighting.py", "markdown.py"}


def is_constant(node):
    """A literal, or an f-string of literals and of constants by name."""
    if isinstance(node, ast.JoinedStr):
        values = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
        return all(isinstance(value, ast.Name) and value.id.isupper() for value in values)
    return isinstance(node, ast.Constant)


@pytest.mark.parametrize("path", sorted(RENDERING.glob("*.py")), ids=lambda path: path.name)
def test_markup_is_made_of_constants_everywhere_but_in_the_four_modules_that_make_it(path):
    if path.name in MAKERS:
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Safe":
            assert all(is_constant(argument) for argument in node.args), ast.unparse(node)


def test_elements_escape_what_is_not_markup_and_refuse_what_is_not_theirs():
    assert elements.el("div", "<b>", ["&", None, elements.el("b", '"')]) == (
        "<div>&lt;b&gt;&amp;<b>&quot;</b></div>"
    )
    for tag in ("script", "iframe", "div onclick=x", "style"):
        with pytest.raises(ValueError, match="not an element"):
            elements.el(tag)
    with pytest.raises(ValueError, match="style"):
        elements.el("div", style="color:red")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="class"):
        elements.el("div", class_="jp-Dialog")
    for mime, data in (("image/svg+xml", "AAAA"), ("image/png", 'A"'), ("text/html", "AAAA")):
        with pytest.raises(ValueError, match="media"):
            elements.media(mime, data, "")
