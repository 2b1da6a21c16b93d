"""Cutting a growing message: nothing lost, little sent twice, structures carried over cuts."""

from __future__ import annotations

import random
import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_jupyter.demo_agent.samples import MARKDOWN, text_of_length
from acp_jupyter.rendering import markdown
from acp_jupyter.rendering.segments import LIMIT, TARGET, Segment, SegmentCutter


def feed(text, sizes, final=True):
    """Returns the segments as a display would hold them at the end, and the characters sent."""
    cutter, sent, at = SegmentCutter(), 0, 0
    shown: dict[int, Segment] = {}
    sizes = iter(sizes)
    while at < len(text):
        at += next(sizes)
        for segment in cutter.cut(text[:at], final=final and at >= len(text)):
            assert not (shown.get(segment.index) and shown[segment.index].frozen), "sent again"
            shown[segment.index] = segment
            sent += len(segment.text)
    return [shown[index] for index in sorted(shown)], sent


def steps(size):
    while True:
        yield size


def random_steps(seed, largest):
    chance = random.Random(seed)
    while True:
        yield chance.randint(1, largest)


def lines_of_code(count):
    return "".join(f"    value_{n} = compute({n})\n" for n in range(count))


CODE = "Here it is:\n\n```python\ndef f():\n" + lines_of_code(400) + "```\n\nThat was it.\n"
PIECES = [
    "A paragraph of some words that is not long.\n\n",
    "Two lines\nof one paragraph.\n\n",
    "- item\n- another\n  - nested\n\n    with a paragraph\n\n- third\n\n",
    "1. first\n\n   ```js\n   code();\n\n   more();\n   ```\n\n2. second\n\n",
    "```python\nx = 1\n\n\ny = '''\n~~~\n'''\n```\n",
    "~~~~\n```\nnot a fence\n```\n~~~~\n\n",
    "> a quotation\n> ```\n> code\n> ```\n\n",
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n",
    "    indented code\n\n    goes on\n\n",
    "word " * 60 + "\n\n",
    "x" * 700 + "\n",
    "````md\n```\ninner\n```\n````\n",
    "```",
    "\n",
    "\n\n\n",
    "🙂 ünï\r\n",
    "$$\na\n$$\n\n",
]


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.sampled_from(PIECES), max_size=60).map("".join),
    st.integers(0, 2**32),
    st.integers(1, 4000),
)
def test_no_text_is_lost_or_doubled_wherever_it_is_cut(text, seed, largest):
    segments, _ = feed(text, random_steps(seed, largest))
    assert "".join(segment.source for segment in segments) == text
    assert all(segment.frozen for segment in segments)
    assert [segment.index for segment in segments] == list(range(len(segments)))
    assert all(len(segment.source) <= LIMIT for segment in segments)


@settings(deadline=None, max_examples=50)
@given(st.text(st.sampled_from("ab `~\n-|>1.#$\t"), max_size=400), st.integers(0, 2**32))
def test_no_text_is_lost_whatever_its_characters(text, seed):
    text = text * 30
    segments, _ = feed(text, random_steps(seed, 3000))
    assert "".join(segment.source for segment in segments) == text


def test_an_answer_of_400_kb_is_sent_one_and_a_half_times_at_most():
    # 20,000 chunks within 5 s, published 20 times a second.
    for sample in (text_of_length(400_000), MARKDOWN * 600, CODE * 34):
        text = sample[:400_000]
        _, sent = feed(text, steps(4_000))
        assert sent <= 1.5 * len(text)


def test_the_bytes_of_a_slow_answer_are_bounded_by_the_tail():
    text = text_of_length(20_000)
    _, sent = feed(text, steps(200))
    assert sent <= len(text) / 200 * (TARGET + 200 + 400)


def test_a_short_message_is_one_segment_that_grows():
    cutter = SegmentCutter()
    assert cutter.cut("Hel") == [Segment(0, "Hel", frozen=False)]
    assert cutter.cut("Hel") == []
    assert cutter.cut("Hello") == [Segment(0, "Hello", frozen=False)]
    assert cutter.cut("Hello", final=True) == [Segment(0, "Hello", frozen=True)]


def test_prose_is_cut_at_blank_lines_only():
    segments, _ = feed(text_of_length(30_000), steps(777))
    assert len(segments) > 10
    assert all(segment.source.endswith("\n\n") for segment in segments[:-1])
    assert all(not segment.opened and not segment.closed for segment in segments)


def test_a_short_code_block_with_blank_lines_is_not_broken():
    text = (
        text_of_length(1_400) + "\n\n```python\na = 1\n\n\nb = 2\n```\n\n" + text_of_length(2_000)
    )
    for size in (1, 50, 5_000):
        segments, _ = feed(text, steps(size))
        assert len(segments) > 1
        assert not any(segment.opened or segment.closed for segment in segments)


@pytest.mark.parametrize("size", [20, 3_000, 100_000])
def test_a_long_code_block_is_closed_and_opened_again_at_a_line_end(size):
    segments, _ = feed(CODE, steps(size))
    assert sum(bool(segment.closed) for segment in segments) >= 2
    for segment in segments:
        assert markdown.to_html(segment.text).count('<div class="highlight">') <= 1
        assert len(re.findall(r"^```", segment.text, re.MULTILINE)) % 2 == 0
    for before, after in pairwise(segments):
        assert bool(before.closed) == bool(after.opened)
        if after.opened:
            assert after.opened == "```python\n"
            assert before.source.endswith("\n")
    rendered = "".join(markdown.to_html(segment.text) for segment in segments)
    code = re.sub(r"<[^>]+>", "", rendered)
    assert all(f"value_{n} = compute({n})" in code for n in range(400))


def test_a_code_block_inside_a_list_stays_in_its_list_when_cut():
    body = lines_of_code(300)
    text = "1. Do this:\n\n    ```python\n" + body + "    ```\n\n2. Then that.\n"
    segments, _ = feed(text, steps(400))
    assert len(segments) > 2
    for segment in segments[:-1]:
        rendered = markdown.to_html(segment.text)
        assert rendered.count('<div class="highlight">') == 1
        assert "```" not in rendered
    assert "Then that." in markdown.to_html(segments[-1].text)
    assert ">Then that.</pre>" not in markdown.to_html(segments[-1].text)


def test_a_nested_list_is_not_cut_inside_an_item_where_that_can_be_avoided():
    item = "- point\n\n  with a paragraph of its own\n\n  - nested\n\n"
    segments, _ = feed(item * 200, steps(300))
    assert len(segments) > 3
    assert all(segment.source.startswith("- point") for segment in segments)


def test_a_long_table_goes_on_with_its_head():
    head = "| name | value |\n|:-----|------:|\n"
    text = head + "".join(f"| row {n} | {n} |\n" for n in range(900)) + "\nEnd.\n"
    segments, _ = feed(text, steps(500))
    assert len(segments) > 2
    assert all(segment.opened == head for segment in segments[1:-1])
    rendered = "".join(markdown.to_html(segment.text) for segment in segments)
    assert rendered.count("<tr>") == 900 + rendered.count("<thead>")


def test_a_quotation_is_cut_at_line_ends():
    segments, _ = feed("> quoted words here\n" * 800, steps(900))
    assert len(segments) > 2
    assert all(segment.source.startswith(">") for segment in segments)


def test_one_endless_line_is_cut_at_a_space_or_else_anywhere():
    words, _ = feed("word " * 4_000, steps(1_000))
    assert all(segment.source.endswith(" ") for segment in words)
    solid, _ = feed("x" * 20_000, steps(1_000))
    assert len(solid) == 4
    code, _ = feed("```\n" + "x" * 20_000 + "\n```\n", steps(1_000))
    assert all(markdown.to_html(s.text).count("<pre") == 1 for s in code)


def test_an_inline_fence_look_alike_opens_no_code_block():
    text = "```not a fence``` in one line\n\n" + text_of_length(5_000)
    segments, _ = feed(text, steps(600))
    assert not any(segment.opened for segment in segments)


def test_a_message_that_is_replaced_is_cut_anew_and_left_over_segments_come_back_empty():
    cutter = SegmentCutter()
    assert len(cutter.cut(text_of_length(6_000))) >= 4
    replaced = cutter.cut("Something else.")
    assert replaced[0] == Segment(0, "Something else.", frozen=False)
    assert len(replaced) >= 4
    assert all(segment.text == "" for segment in replaced[1:])
    assert cutter.cut("Something else. More.") == [
        Segment(0, "Something else. More.", frozen=False)
    ]


@pytest.mark.parametrize("size", [1, 7, 64])
def test_a_marker_that_arrives_in_pieces_is_not_mistaken(size):
    text = text_of_length(1_600) + "\n\n" + "- a\n\n" * 3 + "```py\nx\n```\n\n" + "after\n" * 300
    segments, _ = feed(text, steps(size))
    assert not any(segment.opened for segment in segments)
    assert "".join(segment.source for segment in segments) == text
