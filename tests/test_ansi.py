"""Terminal output: colours kept, overwriting obeyed, everything else dropped."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_jupyter.rendering import ansi


def bare(source):
    return re.sub(r"<[^>]+>", "", source)


def test_plain_text_is_escaped_and_has_no_markup():
    assert ansi.to_html("a <b> & c\nd") == "a &lt;b&gt; &amp; c\nd"


@pytest.mark.parametrize(
    ("codes", "css"),
    [
        ("31", "color:#e75c58"),
        ("92", "color:#007427"),
        ("44", "background:#208ffb"),
        ("107", "background:#a1a6b2"),
        ("1", "font-weight:bold"),
        ("3", "font-style:italic"),
        ("4", "text-decoration:underline"),
        ("4;9", "text-decoration:line-through underline"),
        ("1;31", "color:#e75c58;font-weight:bold"),
        ("38;5;9", "color:#b22b31"),
        ("38;5;120", "color:#87ff87"),
        ("48;5;244", "background:#808080"),
        ("38;2;1;2;255", "color:#0102ff"),
        ("38:2:1:2:255", "color:#0102ff"),
        ("31;7", "color:var(--jp-layout-color0,#fff);background:#e75c58"),
        ("38;2;999;0;0", "color:#ff0000"),
    ],
)
def test_a_graphic_rendition_becomes_one_style(codes, css):
    assert ansi.to_html(f"\x1b[{codes}mx\x1b[0my") == f'<span style="{css}">x</span>y'


@pytest.mark.parametrize("clear", ["0", "", "39", "22;39"])
def test_a_style_ends_where_it_is_cleared(clear):
    assert ansi.to_html(f"\x1b[31mx\x1b[{clear}my").endswith("</span>y")


def test_neighbours_of_one_style_are_one_element():
    assert ansi.to_html("\x1b[31ma\x1b[31mb\x1b[0m").count("<span") == 1


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ("10%\r20%\r100%", "100%"),
        ("long line\rshort", "shortline"),
        ("long line\r\x1b[Kshort", "short"),
        ("long line\x1b[2K\rshort", "short"),
        ("abc\x1b[1Kd", "   d"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("abc\x08\x08X", "aXc"),
        ("ab\x08\x08\x08\x08X", "Xb"),
        ("done\r", "done"),
        ("one\rtwo\nthree", "two\nthree"),
    ],
)
def test_what_is_overwritten_is_not_seen(written, seen):
    assert ansi.strip(written) == seen
    assert bare(ansi.to_html(written)) == seen


def test_overwriting_keeps_the_styles_of_what_stays():
    assert ansi.to_html("\x1b[31mred\x1b[0m\rX") == 'X<span style="color:#e75c58">ed</span>'


@pytest.mark.parametrize(
    "sequence",
    [
        "\x1b]0;title\x07",
        "\x1b]8;;https://hostile.invalid\x1b\\",
        "\x1b]52;c;AAAA\x07",
        "\x1b[2J",
        "\x1b[10;10H",
        "\x1b[?1049h",
        "\x1bPq\x1b\\",
        "\x1b_x\x1b\\",
        "\x1b(B",
        "\x1bc",
        "\x9b2J",
        "\x9d0;t\x9c",
    ],
)
def test_f53_other_escape_sequences_are_dropped(sequence):
    assert ansi.strip(f"a{sequence}b") == "ab"
    assert ansi.to_html(f"a{sequence}b") == "ab"


def test_f53_an_unfinished_sequence_at_the_end_shows_nothing():
    assert ansi.strip("a\x1b[3") == "a"
    assert ansi.strip("a\x1b]0;tit") == "a"  # noqa: B005 - not the method of str


def test_f53_controls_that_are_no_sequence_are_shown():
    assert ansi.strip("a\x07b\u202ec") == "a⟨U+0007⟩b⟨U+202E⟩c"


@given(st.text(st.sampled_from('a<"\x1b[]0123456789;:mKJ\r\n\x08\x9b\x9d\x07\\'), max_size=200))
def test_any_output_gives_safe_markup_that_says_what_strip_says(text):
    source = ansi.to_html(text)
    assert "\x1b" not in source
    assert re.fullmatch(r"(?:[^<>]|<span style=\"[^\"<>]*\">|</span>)*", source)
    unescaped = bare(source).replace("&lt;", "<").replace("&quot;", '"')
    assert unescaped == ansi.strip(text)


def test_a_line_that_is_redrawn_ten_thousand_times_costs_no_copy_each():
    redrawn = "x" * 32_000 + "\r%" * 16_000
    started = time.process_time()
    assert ansi.strip(redrawn) == "%" + "x" * 31_999
    assert time.process_time() - started < 2.0
