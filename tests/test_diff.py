"""Comparing files: correct, folded, bounded, the same in HTML and text."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_jupyter.rendering import diff
from acp_jupyter.rendering.diff import FOLDED_LINES, MAX_LINES, compare, patch_counts

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "  d", "e\tf"]), max_size=40)


def numbered(count, changed=()):
    return "".join(f"line {n}{' changed' * (n in changed)}\n" for n in range(1, count + 1))


@settings(deadline=None)
@given(LINES, LINES)
def test_a_comparison_of_all_lines_gives_both_texts_back(old, new):
    edits, exact = diff._edits(old, new)
    assert exact
    assert [line for sign, line in edits if sign != "+"] == old
    assert [line for sign, line in edits if sign != "-"] == new


@pytest.mark.parametrize(
    ("old", "new", "edits"),
    [
        ("abcabba", "cbabac", 5),  # the example of Myers' paper
        ("abc", "abc", 0),
        ("abc", "", 3),
        ("", "abc", 3),
        ("abcdef", "abXdef", 2),
    ],
)
def test_the_difference_is_the_shortest(old, new, edits):
    found, _ = diff._edits(list(old), list(new))
    assert sum(sign != " " for sign, _ in found) == edits


def test_long_unchanged_stretches_are_folded_to_three_lines_of_context():
    result = compare(numbered(100), numbered(100, {10, 60}))
    assert [(hunk.old, hunk.new, len(hunk.edits)) for hunk in result.hunks] == [
        (7, 7, 8),
        (57, 57, 8),
    ]
    shown = re.sub(r"<[^>]+>", "", diff.to_html(result))
    assert "43 unchanged lines" in shown
    assert "10    - line 10\n" in shown
    assert "   10 + line 10 changed\n" in shown
    assert "line 30" not in shown


def test_counts_and_verbs_name_what_happened():
    assert compare(None, "a\nb\n").verb == "new file"
    assert compare(None, "a\nb\n").summary == "+2 \N{MINUS SIGN}0"
    assert compare("a\n", None).verb == "deleted"
    assert compare("a\n", "").verb == "emptied"
    assert compare("a\n", "a\n").verb == "unchanged"
    edited = compare("a\nb\n", "a\nc\nd\n")
    assert (edited.verb, edited.added, edited.removed) == ("edited", 2, 1)


def test_a_missing_line_end_is_said_and_carriage_returns_are_shown_where_they_differ():
    assert compare("a\nb", "a\nb\n").note == "adds the line end at the end"
    assert compare("x\nb", "a\nb\n").note == "adds the line end at the end"
    assert "U+000D" not in diff.to_html(compare("a\r\nb\r\n", "a\r\nc\r\n"))
    assert "U+000D" in diff.to_html(compare("a\nb\n", "a\r\nb\n"))


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git to apply patches")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (numbered(50), numbered(50, {1, 25, 50})),
        (numbered(3), numbered(30)),
        (numbered(30), numbered(3)),
        (None, numbered(3)),
    ],
)
def test_the_text_form_is_a_patch_that_git_applies(tmp_path, old, new):
    if old is not None:
        (tmp_path / "f.txt").write_text(old)
    name = "a/f.txt" if old is not None else "f.txt"
    patch = diff.to_text(compare(old, new), "f.txt") + "\n"
    patch = patch.replace("--- f.txt", f"--- {name}").replace("+++ f.txt", "+++ b/f.txt")
    (tmp_path / "p").write_text(patch)
    subprocess.run(["git", "apply", "p"], cwd=tmp_path, check=True, timeout=30)
    assert (tmp_path / "f.txt").read_text() == new


def test_f57_a_giant_change_is_summarised_and_says_so():
    result = compare(numbered(10), "".join(f"other {n}\n" for n in range(20_000)))
    assert result.added == 20_000
    assert "20,010 changed lines: too many to show" in result.note
    source = diff.to_html(result)
    assert "too many to show" in source
    assert len(source) < 20_000
    assert "too many to show" in diff.to_text(result, "f")


def test_f57_one_change_in_a_giant_file_is_shown_whole():
    result = compare(numbered(60_000), numbered(60_000, {30_000}))
    assert result.summary == "+1 \N{MINUS SIGN}1"
    assert result.note == ""


def test_f57_a_rewrite_beyond_comparison_is_shown_as_removed_and_added():
    old = "".join(f"{n % 50}\n" for n in range(1_500))
    new = "".join(f"{n % 47}\n" for n in range(1_500, 0, -1))
    result = compare(old, new)
    assert "removed and added" in result.note or result.added < 1_500
    assert sum(len(hunk.edits) for hunk in result.hunks) <= MAX_LINES


def test_f57_an_endless_line_is_shortened():
    source = diff.to_html(compare("a\n", "x" * 300_000 + "\n"))
    assert len(source) < 5_000
    assert "298,000 characters more" in source


def test_a_git_patch_is_counted_and_coloured_by_its_hunks_only():
    patch = (
        "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1,2 +1,3 @@\n"
        " same\n-- old\n++ new\n+more\n"
    )
    assert patch_counts(patch) == (2, 1)
    source = diff.patch_to_html(patch)
    assert source.count("rgba(46,160,67") == 1
    assert re.sub(r"<[^>]+>", "", source) == (
        "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x"
        "1 1   same\n2   - - old\n  2 + + new\n  3 + more\n"
    )
    assert diff.patch_to_text(patch) == patch.rstrip("\n")
    assert "too many to show" in diff.patch_to_html("+x\n" * 6_000)


def bare(source):
    return re.sub(r"<[^>]+>", "", source)


def test_each_file_of_a_patch_has_its_header_and_its_own_line_numbers():
    patch = (
        "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -7 +7,2 @@ def f():\n same\n+more\n"
        "@@ -20,0 +22 @@\n+late\n\\ No newline at end of file\n"
        "--- a/y\n+++ b/y\n@@ -1 +0,0 @@\n-gone\n"
    )
    assert bare(diff.patch_to_html(patch)) == (
        "diff --git a/x b/x\n--- a/x\n+++ b/x"
        " ⋯  6 unchanged lines\n 7  7   same\n    8 + more\n"
        " ⋯  13 unchanged lines\n   22 + late\n"
        "--- a/y\n+++ b/y"
        "1   - gone\n"
    )


@pytest.mark.parametrize(
    "patch",
    [
        "@@ -1 +1 @@\n-old\n+new\n+beyond what the head says\n-and this\n",
        "@@ -1,9 +1,9 @@\n-old\n",
        "@@ -0,0 +1,999999999 @@\n+x\nno line of a hunk\n+y\n",
        "@@ -999999999,1 +999999999,1 @@\n-x\n+y\n",
        "@@ -1 +1 @@",
        "",
        "\n\n",
    ],
)
def test_no_line_of_a_malformed_patch_is_left_out(patch):
    source = bare(diff.patch_to_html(patch))
    for line in patch.split("\n"):
        if not line.startswith("@@"):
            assert line.lstrip("+-") in source


def test_a_long_diff_says_that_it_is_long():
    assert not compare("", numbered(FOLDED_LINES)).is_long
    assert compare("", numbered(FOLDED_LINES + 1)).is_long
    assert not compare(numbered(1_000), numbered(1_000, {500})).is_long
