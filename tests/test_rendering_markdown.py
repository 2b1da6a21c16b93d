"""An agent's Markdown as HTML: what is kept, what becomes text, what mathematics needs."""

from __future__ import annotations

import re
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_jupyter.demo_agent.samples import MARKDOWN, text_of_length
from acp_jupyter.rendering import markdown, mimebundle
from acp_jupyter.rendering.characters import clip, one_line, prose, visible
from acp_jupyter.rendering.segments import SegmentCutter


def shown(source):
    return re.sub(r"<[^>]+>", "", markdown.to_html(source)).strip()


@pytest.mark.obligation("C33")
@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("# Title", "<h1>Title</h1>"),
        ("*a* **b** ~~c~~", "<em>a</em> <strong>b</strong> <s>c</s>"),
        ("- a\n  - b", "<li>a\n<ul>\n<li>b</li>"),
        ("3. a", '<ol start="3">'),
        ("> a", "<blockquote>\n<p>a</p>"),
        ("`a <b>`", "<code>a &lt;b&gt;</code>"),
        ("a  \nb", "a<br>\nb"),
        ("---", "<hr>"),
        ("- [x] done\n- [ ] open", "<li>☑ done</li>\n<li>☐ open</li>"),
        ("| a | b |\n|---|--:|\n| 1 | 2 |", '<td style="text-align:right">2</td>'),
        ("| a | b |\n|---|--:|\n| 1 | 2 |", '<td style="text-align:left">1</td>'),
        ("1 < 2 && 3 > 2", "1 &lt; 2 &amp;&amp; 3 &gt; 2"),
    ],
)
def test_commonmark_with_tables_strikethrough_and_tasks(source, part):
    assert part in markdown.to_html(source)


def test_raw_html_is_shown_as_text():
    assert shown("a <b>x</b>\n\n<div>\ny\n</div>") == (
        "a &lt;b&gt;x&lt;/b&gt;\n&lt;div&gt;\ny\n&lt;/div&gt;"
    )


def test_code_has_the_classes_that_jupyterlab_colours():
    source = markdown.to_html("```python\ndef f():\n    return 'x'\n```")
    assert '<div class="highlight"><pre' in source
    assert '<span class="k">def </span><span class="nf">f</span>' in source
    assert shown("```python\ndef f():\n    return 'x'\n```") == "def f():\n    return 'x'"
    assert "<span" not in markdown.to_html("```unknown-language\ndef f(): 1\n```")
    assert "<span" not in markdown.to_html("```python\n" + "x = 1;" * 200 + "\n```")


@pytest.mark.parametrize("language", ["python", "bash", "json", "yaml", "html", "diff", "cpp"])
def test_colouring_changes_no_character(language):
    code = "a = 'x' # <b>&amp;\n\n\tif (1 < 2) { \"y\": [1, null] }\n- z\n+ z\n  indented\n"
    text = re.sub(r"<[^>]+>", "", markdown.to_html(f"```{language}\n{code}```"))
    for entity, char in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&#x27;", "'")):
        text = text.replace(entity, char)
    assert text.replace("&amp;", "&").rstrip("\n") == code.rstrip("\n")


# -- links and pictures -----------------------------------------------------------------------


def test_links_to_the_web_open_elsewhere_and_tell_nothing():
    assert markdown.to_html("[a](https://x.org/y?z=1#t)").strip() == (
        '<p><a href="https://x.org/y?z=1#t" target="_blank" rel="noopener noreferrer">a</a></p>'
    )


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("[a](javascript:alert(1))", "a (javascript:alert(1))"),
        ("[a](src/x.py#L3)", "a (src/x.py#L3)"),
        ("[src/x.py](src/x.py)", "src/x.py"),
        ("[a](//evil.org/x)", "a (//evil.org/x)"),
        ("[a](https://good.org@evil.org/)", "a (https://good.org@evil.org/)"),
        ("<mailto:a@b.org>", "mailto:a@b.org"),
    ],
)
def test_f52_other_links_are_text_that_shows_the_address(source, text):
    assert "<a" not in markdown.to_html(source)
    assert shown(source) == text


@pytest.mark.parametrize(
    ("source", "url"),
    [
        ("see https://x.org/a.", "https://x.org/a"),
        ("(https://x.org/a_(b))", "https://x.org/a_(b)"),
        ("**https://x.org/a**", "https://x.org/a"),
        ("https://x.org/?a=1&b=2, then", "https://x.org/?a=1&amp;b=2"),
    ],
)
def test_bare_addresses_become_links(source, url):
    assert f'href="{url}"' in markdown.to_html(source)


def test_an_address_inside_a_link_or_code_is_not_linked_again():
    assert markdown.to_html("[https://a.org](https://b.org)").count("<a") == 1
    assert "<a" not in markdown.to_html("`https://a.org`")


def test_f52_pictures_are_named_and_never_fetched():
    source = markdown.to_html("![a chart](https://x.org/p.png)")
    assert "<img" not in source
    assert shown("![a chart](https://x.org/p.png)") == "[image: a chart https://x.org/p.png]"
    assert shown("![x](data:image/png;base64,AAAA)") == "[image: x (embedded, not shown)]"
    assert shown("![](plot.png)") == "[image: (plot.png)]"


# -- mathematics ------------------------------------------------------------------------------


def runs_of_text(source):
    """The pieces in which MathJax looks for delimiters: it does not look across elements."""
    code = re.sub(r"<(pre|code)\b.*?</\1>", "<x>", source, flags=re.DOTALL)
    return re.split(r"<[^>]+>", code)


def formulas(source):
    dollars = r"\$\$.+?\$\$|\$(?:\\.|[^$])+?\$"
    delimited = rf"{dollars}|\\\(.+?\\\)|\\\[.+?\\\]|\\begin.+"
    return [x for run in runs_of_text(source) for x in re.findall(delimited, run, re.DOTALL)]


@pytest.mark.parametrize(
    "formula",
    [
        "$e^{i\\pi} + 1 = 0$",
        "$a_1 * b_1 * c$",
        "$$\\int_0^1 x\\,dx$$",
        "$$\na_1\n= b_1\n- c\n$$",
        "\\(x_1 * y_1\\)",
        "\\[x_1 * y_1\\]",
        "\\[\nx\n= y\n\\]",
        "\\begin{align}\na &= b \\\\\n&= c\n\\end{align}",
        "$\\text{costs \\$5}$",
    ],
)
def test_mathematics_stays_in_its_source_form(formula):
    for source in (
        f"{formula}",
        f"Before\n\n{formula}\n\nafter",
        f"> {formula}".replace("\n", "\n> "),
    ):
        escaped = formula.replace("&", "&amp;")
        assert [found.strip() for found in formulas(markdown.to_html(source))] == [escaped]


@pytest.mark.parametrize(
    "source",
    [
        "it costs $5 and $10",
        "$HOME and $PATH",
        "$HOME:$PATH",
        "5$ or 6$",
        "\\$a\\$",
        "a $ b $ c",
        "US$5 to US$6",
        "`$x$`",
        "```\n$x$ \\(y\\)\n```",
        "C:\\\\begin{x} \\\\(no\\\\)",
        "open $$ and no end",
    ],
)
def test_what_is_no_mathematics_is_not_typeset(source):
    assert formulas(markdown.to_html(source)) == []


@pytest.mark.parametrize(
    "command", ["href{javascript:x}{y}", "style{x}{y}", "def\\a{b}", "class{x}{y}"]
)
def test_f51_formulas_that_link_style_or_define_are_shown_as_code(command):
    for source in (f"$\\{command}$", f"$$\n\\{command}\n$$", f"\\[\\{command}\\]"):
        assert formulas(markdown.to_html(source)) == []
        assert f"\\{command}" in markdown.to_html(source)


# -- characters -------------------------------------------------------------------------------


def test_f53_prose_keeps_joiners_and_shows_what_reorders():
    assert shown("👩\u200d💻 \u202eevil\u202c") == "👩\u200d💻 ⟨U+202E⟩evil⟨U+202C⟩"
    assert prose("a\x1b[31mb\x1b[0m\x07\r\nc\rd\ud800") == "ab\nc\nd\ufffd"


def test_f53_code_shows_everything_that_is_invisible():
    assert "a⟨U+200B⟩b" in markdown.to_html("`a\u200bb`")
    assert shown("```python\nx\u2066y\n```") == "x⟨U+2066⟩y"


def test_f53_evidence_shows_controls_and_keeps_tabs_and_line_ends():
    assert visible("a\tb\nc\x1b\x00\x85\u061c\u00ad\r") == (
        "a\tb\nc⟨U+001B⟩⟨U+0000⟩⟨U+0085⟩⟨U+061C⟩⟨U+00AD⟩⟨U+000D⟩"
    )
    assert one_line("a\n\n b\tc", 20) == "a b c"
    assert one_line("x" * 300, 10) == "x" * 9 + "…"


def test_a_long_text_is_cut_in_its_middle_at_line_ends():
    text = "".join(f"line {n}\n" for n in range(10_000))
    part = clip(text, 20_000)
    assert part.head.startswith("line 0\n")
    assert part.tail.startswith("line ")
    assert part.tail.endswith("line 9999\n")
    left_out = len(text) - len(part.head) - len(part.tail)
    assert part.note == f"[… {left_out:,} characters left out …]"
    assert len(part.head) + len(part.tail) <= 20_000
    assert str(clip("short")) == "short"


# -- size and time ----------------------------------------------------------------------------


def test_a_streamed_answer_is_published_in_less_than_three_times_its_bytes():
    # Published 20 times a second while 400 kB arrive within 5 s: both copies, the tail re-sent.
    text = text_of_length(400_000)
    cutter, sent = SegmentCutter(), 0
    for end in range(4_000, len(text) + 1, 4_000):
        for segment in cutter.cut(text[:end]):
            bundle = mimebundle.message_bundle(segment.text)
            sent += sum(len(value.encode()) for value in bundle.values())
    assert sent < 3 * len(text)


def test_f57_input_that_makes_parsers_quadratic_is_rendered_in_bounded_time():
    pieces = ["[", "![", "$", "$a ", "**a ", "`", "<a ", "\\( ", "- ", "> ", "_a", "https://a("]
    for piece in pieces:
        started = time.process_time()
        markdown.to_html(piece * (40_000 // len(piece)))
        assert time.process_time() - started < 5, piece


def test_a_sample_of_everything_renders_to_the_same_html_in_one_piece_or_in_segments():
    whole = markdown.to_html(MARKDOWN * 2)
    parts = SegmentCutter().cut(MARKDOWN * 6, final=True)
    assert len(parts) > 1
    assert "".join(markdown.to_html(part.text) for part in parts) == whole + whole + whole


def test_importing_the_layer_loads_none_of_the_libraries_it_needs():
    code = (
        "import sys; from acp_jupyter.rendering import mimebundle, segments;"
        "print([n for n in ('markdown_it', 'nh3', 'pygments', 'mdit_py_plugins')"
        " if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


PROSE = st.lists(
    st.sampled_from(
        [
            *"aB3 \n.,;:!?%@()'\"-+=^/",
            "\n\n",
            "1. ",
            "12) ",
            "---",
            "    ",
            "  \n",
            "word ",
            "well-known",
            "http://x.y",
        ]
    ),
    max_size=30,
).map("".join)


@given(PROSE)
@settings(max_examples=1500, deadline=None)
def test_plain_prose_becomes_what_the_parser_would_make_of_it(text: str) -> None:
    assert str(markdown.to_html(text)) == str(markdown._to_html(text))


def test_plain_prose_does_take_the_short_way() -> None:
    text = "An agent's answer, mostly: words (many) and 100% punctuation; 3.5 - 2 = 1.5!\n\nYes."
    assert markdown._PLAIN.fullmatch(text)
