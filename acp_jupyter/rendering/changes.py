"""Files that changed while a turn ran, as HTML and as text.

They are told by the disk, so the words are the client's; names and contents are still anybody's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ..session.changes import Changes, FileChange
from . import diff
from .characters import one_line
from .elements import BODY, Safe, box, el, fold, join, muted
from .toolcalls import TONES

SYMBOLS: Final = {"created": "+", "modified": "✎", "deleted": "⌫", "mode": "⚙"}
_TONES: Final = {"created": "good", "deleted": "bad"}

SHOWN: Final = 50
"""Files that are named; the others are a number."""

FOOTER: Final = 20_000
"""Characters of patches in the footer of a turn, which is sent again with each late update."""

WHOLE: Final = 1_000_000
"""The same of what the user asks to see."""

WHILE: Final = "Changed while it ran"

_BINARY: Final = "\nGIT binary patch\n"


def title(changes: Changes, what: str = WHILE) -> str:
    """How many files and lines; empty if nothing has changed."""
    if not changes.count:
        return ""
    files = "1 file" if changes.count == 1 else f"{changes.count:,} files"
    counts = diff.counts_text(changes.added, changes.removed)
    lines = f", {counts}" if changes.added or changes.removed else ""
    return f"{what}: {files}{lines}"


def line(change: FileChange) -> str:
    """What became of one file."""
    counts = ""
    if change.added or change.removed:
        counts = f" {diff.counts_text(change.added, change.removed)}"
    modes = ""
    if change.before is not None and change.after is not None:
        old, new = change.before.permissions, change.after.permissions
        modes = f" {old:o} → {new:o}" if old != new else ""
    notes = filter(None, (change.note, "binary" if _BINARY in change.diff else ""))
    about = "".join(f" ({one_line(note, 200)})" for note in notes)
    kind = "changed mode of" if change.kind == "mode" else change.kind
    return f"{kind} {one_line(change.path, 200)}{modes}{counts}{about}"


def body(change: FileChange) -> str:
    """What of a patch is worth reading: its hunks."""
    start = change.diff.find("\n@@ ")
    return "" if start < 0 or _BINARY in change.diff else change.diff[start + 1 :]


def to_html(
    changes: Changes, *, room: int = FOOTER, open_: bool = False, what: str = WHILE
) -> Safe | None:
    """The changes, folded; ``None`` if there is nothing to say.

    Args:
        changes: of a turn.
        room: characters of patches; a file beyond them is named only.
        open_: the list of files is not folded.
        what: has become of the files.
    """
    notes = [el("div", muted(one_line(note, 500))) for note in changes.notes]
    if not changes.count:
        return box(notes) if notes else None
    rows: list[Safe] = []
    for change in changes.files[:SHOWN]:
        text = body(change)
        room -= len(text)
        rows.append(_file(change, text if room >= 0 else ""))
    more = changes.count - len(rows)
    if more:
        rows.append(el("div", muted(f"and {more:,} more")))
    if room < 0:
        rows.append(el("div", muted("Not all is shown here: see `%acp changes`.")))
    inner = el("div", rows, notes, style=BODY)
    return box(fold(muted(f"▤ {title(changes, what)}"), inner, open_=open_))


def _file(change: FileChange, text: str) -> Safe:
    symbol = el("span", SYMBOLS[change.kind], style=TONES.get(_TONES.get(change.kind, "")))
    head = join([symbol, " ", line(change)])
    return fold(head, diff.patch_to_html(text)) if text else el("div", head)


def to_lines(changes: Changes, *, whole: bool = False, what: str = WHILE) -> Iterator[str]:
    """The same as text; ``whole`` with the patches."""
    if changes.count:
        yield title(changes, what)
    for change in changes.files[:SHOWN]:
        yield f"  {SYMBOLS[change.kind]} {line(change)}"
        if whole and (text := body(change)):
            yield diff.patch_to_text(text)
    more = changes.count - len(changes.files[:SHOWN])
    if more:
        yield f"  and {more:,} more"
    yield from (one_line(note, 500) for note in changes.notes)


def bundle(changes: Changes, head: str = "", *, what: str = WHILE) -> dict[str, Any]:
    """All of it, for who asks to see it."""
    first = [head] if head else []
    shown = to_html(changes, room=WHOLE, open_=True, what=what)
    lines = [*first, *to_lines(changes, whole=True, what=what)]
    return {
        "text/html": str(join([el("div", muted(head)) if head else None, shown])),
        "text/plain": "\n".join(lines),
    }
