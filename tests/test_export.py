"""A notebook as one file: whole, seamless, harmless, and without secrets where that was asked."""

from __future__ import annotations

import base64
import json
import random
import re
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from nbformat import v4

from acp_jupyter import cli
from acp_jupyter.errors import UsageError
from acp_jupyter.export import as_markdown, export_file, export_notebook
from acp_jupyter.export.redaction import Redactor
from acp_jupyter.export.sanitising import clean, text_of
from acp_jupyter.rendering import ansi, mimebundle
from acp_jupyter.rendering.segments import SegmentCutter, join
from tests import hostile
from tests.test_segments import PIECES

ROOT = Path(__file__).parents[1]
QUICKSTART = ROOT / "notebooks" / "01-quickstart.ipynb"
PYTHON = ROOT / "notebooks" / "02-python-notebook.ipynb"
AGENTS = {"kernelspec": {"name": "acp", "display_name": "ACP Agent", "language": "acp"}}

LOADS = {"src", "srcset", "href", "data", "poster", "background", "action", "formaction", "ping"}
RUNS = {"script", "iframe", "object", "embed", "form", "input", "button", "link", "base", "svg"}


class Page(HTMLParser):
    """What a browser would make of a page, as far as it could do harm."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.elements = []
        self.wrong = []
        self.meta = {}
        self.open = []
        self.text = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        if tag not in ("meta", "br", "hr", "img", "col"):
            self.open.append(tag)
        if tag in RUNS:
            self.wrong.append(tag)
        for name, value in attrs:
            if tag == "meta" and name == "http-equiv":
                self.meta = dict(attrs)
            self.check(tag, name, value or "")

    def check(self, tag, name, value):
        if name.startswith("on"):
            self.wrong.append((tag, name))
        elif name in LOADS and not (
            (tag == "a" and re.match(r"https?://|#", value))
            or (tag in ("img", "audio") and re.match(r"data:(image|audio)/", value))
        ):
            self.wrong.append((tag, name, value[:60]))
        elif name == "style" and re.search(r"url|position|expression|import|@|\\", value):
            self.wrong.append((tag, value))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"/{tag}")

    def handle_data(self, data):
        self.text.append(data)


def page_of(notebook, redact=False):
    page = Page(export_notebook(notebook, "html", redact))
    assert page.wrong == []
    assert page.open == []
    assert page.meta["content"].startswith("default-src 'none'; img-src data:;")
    return page


def display(data, **metadata):
    return v4.new_output("display_data", data=data, metadata=metadata)


def html_output(html, plain=""):
    return display({"text/html": html, "text/plain": plain})


def notebook_of(*outputs, source="a prompt", metadata=AGENTS):
    return v4.new_notebook(
        cells=[v4.new_code_cell(source, outputs=list(outputs))], metadata=metadata
    )


def as_json(notebook, redact=False):
    return json.loads(export_notebook(notebook, "json", redact))


# -- the conversation -----------------------------------------------------------------------------


def test_the_quickstart_becomes_prompts_and_answers_that_unfold():
    page = Page(export_file(QUICKSTART, "html"))
    assert page.wrong == []
    assert page.elements.count("h1") == 1
    assert page.elements.count("details") > 10
    assert page.elements.count("main") == page.elements.count("header") == 1
    text = "".join(page.text)
    for shown in ("Write greeting.txt", "Good morning, notebook!", "2026-11-21", "5 prompts"):
        assert shown in text


def test_json_tells_prompts_code_answers_and_decisions_apart():
    cells = json.loads(export_file(QUICKSTART, "json"))["cells"]
    prompts = [cell for cell in cells if cell["type"] == "prompt"]
    assert len(prompts) == 5
    assert prompts[0]["source"] == "Hello! What can you do?"
    answer = [output for output in prompts[1]["outputs"] if output["type"] == "message"]
    assert len(answer) == 2
    assert answer[0]["text"].strip() == "I created `greeting.txt` (16 characters)."
    assert answer[1]["text"].startswith("`greeting.txt` has 1 line")
    decided = [output for output in prompts[1]["outputs"] if "decisions" in output]
    assert [d["outcome"] for output in decided for d in output["decisions"]] == ["allowed"]
    python = [cell for cell in cells if cell["source"].startswith("%%python")]
    assert [cell["type"] for cell in python] == ["code"]


def test_cells_of_a_python_notebook_are_prompts_where_they_say_so():
    cells = json.loads(export_file(PYTHON, "json"))["cells"]
    prompts = [cell for cell in cells if cell["type"] == "prompt"]
    assert {cell["magics"].split()[0] for cell in prompts} == {"%%acp"}
    assert any(cell["type"] == "code" and cell["source"] == 'scores = {"ann": 3, "bob": 5}\nscores'
               for cell in cells)  # fmt: skip


def test_markdown_folds_tool_calls_and_keeps_the_answers_markdown():
    text = export_file(PYTHON, "md")
    assert "<details><summary>[edit] Write greeting.txt — ✓ completed</summary>" in text
    assert "Some *emphasis*, some **strong words**, `inline code`" in text
    outside_code = re.sub(r"(?ms)^(`{3,}).*?^\1$", "", text)
    elements = re.findall(r"<(\w+)[^>]*>", re.sub(r"<https?:[^>]*>", "", outside_code))
    assert set(elements) == {"details", "summary"}


def test_the_data_of_an_entry_is_kept():
    data = {"type": "plan", "version": 1, "id": "x", "label": "Plan", "done": 1, "total": 2}
    bundle = {"text/html": "<div>Plan</div>", "text/plain": "Plan"}
    output = display({**bundle, "application/vnd.acp.entry+json": data})
    made = as_json(notebook_of(output))
    assert made["version"] == 1
    assert made["cells"][0]["outputs"] == [{"type": "entry", "text": "Plan", "data": data}]


def test_a_table_of_another_library_stays_a_table():
    html = (
        '<div><style scoped>.dataframe td {color: red}</style><table border="1" class="dataframe">'
        "<thead><tr><th>a</th></tr></thead><tbody><tr><td>12</td></tr></tbody></table></div>"
    )
    notebook = notebook_of(html_output(html, "    a\n0  12"), source="df", metadata={})
    page = export_notebook(notebook, "html")
    assert '<table class="dataframe"><thead><tr><th>a</th>' in page
    assert "color: red" not in page
    assert as_json(notebook)["cells"][0]["outputs"][0]["type"] == "html"


def test_what_only_a_script_would_show_becomes_its_text():
    html = "<div id=x></div><script>draw()</script>"
    page = export_notebook(notebook_of(html_output(html, "<Figure>"), metadata={}), "html")
    assert "&lt;Figure&gt;" in page
    assert "draw()" not in page


def test_streams_and_errors_keep_their_colours_in_html_only():
    notebook = notebook_of(
        v4.new_output("stream", text="one "),
        v4.new_output("stream", text="two\n"),
        v4.new_output("error", ename="E", evalue="x", traceback=["\x1b[31mE\x1b[0m: x"]),
        source="1/0",
        metadata={},
    )
    assert '<pre class="stdout">one two</pre>' in export_notebook(notebook, "html")
    assert "<span style=" in export_notebook(notebook, "html")
    assert "\nE: x\n" in export_notebook(notebook, "md")


def test_a_block_of_code_with_fences_in_it_stays_one_block():
    notebook = notebook_of(source="x = '''\n````\n```\n'''", metadata={})
    assert "`````python\nx = '''\n````\n```\n'''\n`````" in export_notebook(notebook, "md")


def test_pictures_are_checked_and_embedded():
    svg = '<svg xmlns="http://www.w3.org/2000/svg"><script>1</script></svg>'
    notebook = notebook_of(
        display({"image/png": hostile.PNG, "text/plain": "<Figure>"}),
        display({"image/png": base64.b64encode(b"<script>").decode()}),
        display({"image/svg+xml": svg}),
        metadata={},
    )
    page = export_notebook(notebook, "html")
    assert f'<img src="data:image/png;base64,{hostile.PNG}" alt="&lt;Figure&gt;">' in page
    assert "picture not shown" in page
    assert f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}" in page
    assert page_of(notebook).elements.count("img") == 2


# -- messages in segments -------------------------------------------------------------------------


def segments_of(text, seed, largest):
    cutter, chance, shown, at = SegmentCutter(), random.Random(seed), {}, 0
    while at < len(text):
        at += chance.randint(1, largest)
        for segment in cutter.cut(text[:at], final=at >= len(text)):
            shown[segment.index] = segment.text
    return [shown[index] for index in sorted(shown)]


LONG = [
    *(piece.replace("\r\n", "\n") for piece in PIECES if piece.strip("`")),
    "word " * 1_500 + "\n",
    "```python\n" + "    value = compute()\n" * 300 + "```\n\n",
    "- item\n\n  ```js\n" + "  code();\n" * 500 + "  ```\n\n  more\n\n",
    "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 900 + "\n",
]


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.sampled_from(LONG), min_size=1, max_size=30).map("".join),
    st.integers(0, 2**32),
    st.sampled_from([40, 700, 5_000, 100_000]),
)
def test_the_segments_of_a_message_are_put_together_without_a_seam(text, seed, largest):
    assert join(segments_of(text, seed, largest)) == text


def test_a_long_answer_is_one_message_with_one_block_of_code():
    code = "".join(f"value_{n} = compute({n})\n" for n in range(400))
    answer = f"Here:\n\n```python\n{code}```\n\nDone.\n"
    pieces = segments_of(answer, 0, 300)
    assert len(pieces) > 2
    notebook = notebook_of(*(display(mimebundle.message_bundle(piece)) for piece in pieces))
    assert [output["text"] for output in as_json(notebook)["cells"][0]["outputs"]] == [answer]
    assert f"```python\n{code}```" in export_notebook(notebook, "md")


def test_two_messages_in_a_row_do_not_run_into_each_other():
    assert join(["The first.", "The second.\n", "```\nx\n```\n"]) == (
        "The first.\n\nThe second.\n\n```\nx\n```\n"
    )


# -- hostile content ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def corpus():
    """Every hostile text in every place of a notebook."""
    cells = []
    for text in hostile.TEXTS:
        outputs = [
            html_output(text, text),
            display({"text/markdown": text, "text/plain": text}),
            display({"text/plain": text}),
            display({"image/svg+xml": text, "text/plain": text}),
            display({"image/png": text, "text/plain": text}),
            v4.new_output("stream", text=text),
            v4.new_output("error", ename=text, evalue=text, traceback=[text]),
            display(mimebundle.message_bundle(text)),
        ]
        cells += [v4.new_code_cell(text, outputs=outputs), v4.new_markdown_cell(text)]
    return v4.new_notebook(cells=cells, metadata={**AGENTS, "title": hostile.TEXTS[0]})


def test_no_hostile_content_does_anything_in_a_page(corpus):
    page = page_of(corpus)
    assert "\u202e" not in "".join(page.text)
    assert page.elements.count("style") == page.elements.count("title") == 1


@pytest.mark.parametrize("text", hostile.TEXTS)
def test_no_hostile_markdown_keeps_elements_pictures_or_links_that_run(text):
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    for token in parser.parse(as_markdown.harmless(text)):
        for part in [token, *(token.children or [])]:
            assert part.type not in ("html_block", "html_inline", "image"), part.content
            if part.type == "link_open":
                assert not re.match(r"(?i)\s*(?!https?:)[a-z.+-]+:", str(part.attrGet("href")))


@pytest.mark.parametrize(
    "style",
    [
        "position:fixed;inset:0",
        "background:url(https://hostile.invalid)",
        "background:u\\72l(x)",
        "margin:-50px",
        "color:expression(1)",
        "color:red !important",
        "--x:1",
        "background:image-set('x' 1x)",
    ],
)
def test_styles_that_fetch_or_cover_are_dropped(style):
    assert clean(f'<div style="{style}">x</div>') in ("<div>x</div>", '<div style="">x</div>')


def test_elements_of_ours_come_through_with_their_styles():
    ours = mimebundle.message_bundle("| a |\n|:-:|\n| `b` |\n\n```python\nx = 1\n```")["text/html"]
    assert "text-align:center" in clean(ours)
    assert 'class="highlight"' in clean(ours)
    assert text_of(clean(ours)) == text_of(ours)


# -- redaction ------------------------------------------------------------------------------------

CANARIES = [
    "sk-" + "proj-abcDEF123456ghiJKL789",
    "ghp_" + "a1B2" * 9,
    "github_pat_" + "11ABCDEFG0" * 3,
    "AKIA" + "ABCDEFGH12345678",
    "xoxb-" + "123456789012-abcdefghij",
    "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0In0.abc-_123",
    "hf_" + "abcdefghijklmnopqrstuvwx",
]
IN_CONTEXT = [
    ("Authorization: Bearer {}", "abcdef123456.secret"),
    ("curl https://user:{}@example.org/x", "hunter2!"),
    ("export MY_SERVICE_TOKEN={}", "plainvalue"),
    ('{{"api_key": "{}"}}', "plainvalue"),
    ("password = '{}'", "hunter"),
    ("db_password: {}", "hunter22"),
    ("-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----", "MIIEvQIBADAN\nBgkq"),
    ("cd /home/{}/project", "canaryuser"),
    ("cd /Users/{}/project", "Canary User"),
    ("open C:\\\\Users\\\\{}\\\\x.txt", "canaryuser"),
    ("file:///home/{}", "canaryuser"),
    ("/nfs/home/{}/data", "canaryuser"),
    ("~/.cache/-home-{}-project", "canaryuser"),
    ("in the environment: {}", "canary-from-the-environment"),
    ("in a home of another form: /srv/people/{}/x", "canaryuser"),
]


@pytest.fixture
def redactor(monkeypatch):
    monkeypatch.setenv("CANARY_TOKEN", "canary-from-the-environment")
    monkeypatch.setenv("HOME", "/srv/people/canaryuser")


@pytest.mark.usefixtures("redactor")
@pytest.mark.parametrize("to", ["html", "md", "json"])
@pytest.mark.parametrize(
    ("context", "secret"), [*(("see {} there", canary) for canary in CANARIES), *IN_CONTEXT]
)
def test_no_canary_is_left_wherever_it_stands(to, context, secret):
    text = context.format(secret)
    escaped = text.replace("<", "&lt;").replace("/", "&#47;").replace("a", "&#x61;")
    notebook = notebook_of(
        html_output(f'<div title="{escaped.replace(chr(34), "&quot;")}">{escaped}</div>', text),
        html_output(f"<p>{escaped}</p>"),
        display(mimebundle.message_bundle(text)),
        display({"text/markdown": text, "text/plain": text}),
        display({"image/svg+xml": f"<svg><text>{escaped}</text></svg>"}),
        v4.new_output("stream", text=text),
        v4.new_output("error", ename="E", evalue=text, traceback=[text]),
        display({"text/plain": "x"}, acp={"decisions": [{"command": text, "at": text}]}),
        source=text,
    )
    notebook.cells.append(v4.new_markdown_cell(f"# {text}"))
    shown = export_notebook(notebook, to, redact=False)
    made = export_notebook(notebook, to, redact=True)
    plain = "".join(Page(made).text) if to == "html" else made
    for part in secret.split("\n"):
        assert part in "".join(Page(shown).text) if to == "html" else shown
        assert part not in plain
        assert part not in made


@pytest.mark.usefixtures("redactor")
@pytest.mark.parametrize("to", ["html", "md", "json"])
def test_a_secret_that_marks_split_is_found(to):
    token = CANARIES[0]
    head, tail = token[:9], token[9:]
    notebook = notebook_of(
        html_output(f"<pre><span>{head}</span><b>{tail}</b></pre>", "the same"),
        display({"text/markdown": f"{head}**{tail}**", "text/plain": "x"}),
        v4.new_output("stream", text=f"\x1b[31m{head}\x1b[1m{tail}\x1b[0m"),
        v4.new_output("stream", text=head),
        v4.new_output("stream", text=tail),
    )
    made = export_notebook(notebook, to, redact=True)
    assert tail not in made
    assert "the same" in made


@given(st.text(alphabet=st.sampled_from("ab1/ :=\"'-_\\.@~[]hometkenpswrdTOKENUsC"), max_size=80))
@settings(max_examples=300)
def test_redacting_again_changes_nothing(text):
    redactor = Redactor({}, ["/root"])
    once = redactor.text(text)
    assert redactor.text(once) == once


@pytest.mark.parametrize(
    "text",
    [
        "MAX_TOKENS=4000 and tokens: 182 of 8,000",
        "token = get_token()",
        "password: str",
        "The token is kept at home.",
        "https://example.org/a:b/c@d",
        "basic understanding of a bearer certificate",
        "~/project and /usr/home",
    ],
)
def test_what_is_no_secret_stays(text):
    assert Redactor({}).text(text) == text


# -- the command ----------------------------------------------------------------------------------


def test_the_file_goes_beside_the_notebook_and_is_not_written_over(tmp_path, capsys):
    notebook = tmp_path / "run.ipynb"
    notebook.write_bytes(QUICKSTART.read_bytes())
    assert cli.main(["export", str(notebook)]) == 0
    made = tmp_path / "run.html"
    assert made.read_text(encoding="utf-8") == export_file(notebook, "html")
    assert cli.main(["export", str(notebook)]) == 1
    assert "--force" in capsys.readouterr().err
    assert cli.main(["export", str(notebook), "--force"]) == 0
    assert cli.main(["export", str(notebook), "--force", "-o", str(notebook)]) == 1
    assert notebook.read_bytes() == QUICKSTART.read_bytes()


def test_the_command_says_what_it_replaced_and_what_it_cannot_see(capfd):
    assert cli.main(["export", str(QUICKSTART), "--to", "json", "-o", "-", "--redact"]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["title"] == "Talk to a coding agent"
    assert "home directories: 1" in err
    assert "/home/me" not in out
    assert cli.main(["export", str(QUICKSTART), "-o", "-", "--redact"]) == 0
    assert "nothing was removed from: 1." in capfd.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no file"),
        ("no json", "holds no JSON"),
        ('{"a": 1}', "no notebook"),
        ('{"nbformat": 9, "nbformat_minor": 0, "cells": []}', "newer than"),
        ('{"nbformat": true, "cells": []}', "no notebook"),
    ],
)
def test_what_is_no_notebook_is_refused_with_the_reason(tmp_path, capsys, content, message):
    path = tmp_path / "x.ipynb"
    if content is not None:
        path.write_text(content)
    assert cli.main(["export", str(path), "-o", "-"]) == 1
    out, err = capsys.readouterr()
    assert message in err
    assert not out


@pytest.mark.parametrize("to", ["html", "md", "json"])
@pytest.mark.parametrize("cells", [17, [None], [{"cell_type": "code", "outputs": [3, {"a": 1}]}]])
def test_a_damaged_notebook_gives_what_can_be_read_of_it(tmp_path, to, cells):
    path = tmp_path / "x.ipynb"
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "cells": cells}))
    assert export_file(path, to)


def test_a_notebook_of_an_older_format_is_read(tmp_path):
    path = tmp_path / "old.ipynb"
    old = nbformat.v3.new_notebook(
        worksheets=[nbformat.v3.new_worksheet(cells=[nbformat.v3.new_code_cell("old = 1")])]
    )
    path.write_text(nbformat.v3.writes_json(old))
    assert "old = 1" in export_file(path, "md")


def test_an_unknown_format_is_refused():
    with pytest.raises(UsageError, match="pdf"):
        export_notebook(notebook_of(), "pdf")


def test_terminal_text_in_a_file_drives_no_terminal():
    text = export_notebook(notebook_of(v4.new_output("stream", text="\x1b]0;x\x07\x1b[2Jok")), "md")
    assert ansi.strip(text) == text
