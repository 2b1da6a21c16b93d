"""Terminal output: colours kept, overwriting obeyed, everything else dropped."""

from __future__ import annotations

import itertools
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
        ("92", "color:#1a823d"),
        ("44", "color:#000000;background:#208ffb"),
        ("107", "color:#000000;background:#a1a6b2"),
        ("1", "font-weight:bold"),
        ("3", "font-style:italic"),
        ("4", "text-decoration:underline"),
        ("4;9", "text-decoration:line-through underline"),
        ("1;31", "color:#e75c58;font-weight:bold"),
        ("38;5;9", "color:#ba4046"),
        ("38;5;120", "color:#5fb35f"),
        ("48;5;244", "color:#000000;background:#808080"),
        ("38;2;1;2;255", "color:#4d4eff"),
        ("38:2:1:2:255", "color:#4d4eff"),
        ("31;7", "color:#000000;background:#e75c58"),
        ("7", "color:var(--jp-layout-color0,#fff);background:var(--jp-content-font-color1,#333)"),
        ("37", "color:var(--jp-content-font-color1,#757575)"),
        ("90", "color:var(--jp-content-font-color2,#757575)"),
        ("97;44", "color:#000000;background:#208ffb"),
        ("38;5;15;48;5;17", "color:#a1a6b2;background:#00005f"),
        ("38;2;999;0;0", "color:#ff0000"),
    ],
)
def test_a_graphic_rendition_becomes_one_style(codes, css):
    assert ansi.to_html(f"\x1b[{codes}mx\x1b[0my") == f'<span style="{css}">x</span>y'


def contrast(one: str, other: str) -> float:
    """As WCAG 2 defines it, with its own transfer function."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (c / 12.92 if c <= 0.04 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("page", ["#ececec", "#212121"])
def test_text_in_any_colour_can_be_read_on_light_and_dark_pages(page):
    for red, green, blue in itertools.product((0, 60, 130, 200, 255), repeat=3):
        source = ansi.to_html(f"\x1b[38;2;{red};{green};{blue}mx")
        for colour in re.findall(r'"color:(#[^"]+)"', source):
            assert contrast(colour, page) > 1.8, source


def test_text_on_any_background_can_be_read():
    for fore, back in itertools.product(range(16, 256, 7), range(0, 256, 5)):
        for codes in (f"48;5;{back}", f"38;5;{fore};48;5;{back}", f"38;5;{back};7"):
            source = ansi.to_html(f"\x1b[{codes}mx")
            [(colour, below)] = re.findall(r'"color:(#\w+);background:(#\w+)"', source)
            assert contrast(colour, below) > 2.3, source


def test_the_last_lines_can_be_had_apart_with_their_styles():
    text = "one\n\x1b[31mtwo\nthree\nfour"
    red = '<span style="color:#e75c58">{}</span>'.format
    early, count, last = ansi.to_html_split(text, 2)
    assert (bare(early), count) == ("one\ntwo", 2)
    assert last == f"{red('three')}\n{red('four')}"
    assert ansi.to_html_split(text, 4) == ("", 0, ansi.to_html(text))
    assert ansi.to_html_split("", 1) == ("", 0, "")


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
