"""What goes with a prompt: finding mentions in its text, and attachments as content blocks.

Rules:

- The text is sent as it was written: mentions stay in it, and so do the backslashes before ``\\@``.
- An attachment goes in the first form of `_FORMS` that the agent takes (C29), text before links.
  Every agent takes text and links, so nothing is lost but what cannot be linked.
- A mention is ``@name``, ``@path/to/file``, ``@"path with spaces"``, ``@cell:3``, ``@cell:-1``,
  ``@notebook`` or ``@error``. None are in code, in e-mail addresses, in URLs, or after a backslash;
  punctuation that follows is not part of one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ..errors import UsageError
from ..protocol.methods import supports
from .prompt import NEEDS, Block
from .transcript import SentItem

__all__ = [
    "Attachment",
    "Mention",
    "block_of",
    "blocks",
    "complete_mention",
    "find_mentions",
    "open_mention",
    "sent_items",
    "takes",
]

Kind = Literal["text", "image", "audio", "link", "resource"]


@dataclass(frozen=True, slots=True)
class Attachment:
    """One thing that is sent with a prompt.

    Attributes:
        name: as it is mentioned, without the ``@``.
        kind: "text" for a description of ours, "resource" for the text of a file, "image",
            "audio", or "link" for what is only named.
        text: of a text or a resource.
        data: of an image or audio, base64.
        uri: of the file; of what is no file, an address within the notebook. An image without one
            can only go to agents that take images.
        mime: its media type; may be empty.
        note: what was left out, in a few words; may be empty.
        size: bytes of the whole, if that is not what ``text`` or ``data`` hold; of a link, the
            file's.
    """

    name: str
    kind: Kind
    text: str = ""
    data: str = ""
    uri: str = ""
    mime: str = ""
    note: str = ""
    size: int | None = None

    @property
    def bytes(self) -> int | None:
        """Bytes that go to the agent; ``None`` where nobody knows (a directory)."""
        if self.kind == "link":
            return self.size
        if self.data:
            return len(self.data) // 4 * 3 - self.data.count("=", -2)
        return len(self.text.encode("utf-8", "replace"))


# -- content blocks ---------------------------------------------------------------------------

_FORMS: Final[Mapping[Kind, tuple[str, ...]]] = {
    "text": ("resource", "text"),
    "resource": ("resource", "resource_link"),
    "image": ("image", "resource_link"),
    "audio": ("audio", "resource_link"),
    "link": ("resource_link",),
}
"""The types of block in which a kind of attachment can go: the best, and one that needs nothing."""

_FENCE_WORDS: Final = {
    "text/csv": "csv",
    "text/markdown": "markdown",
    "text/x-python": "python",
}


def takes(attachment: Attachment, prompt_capabilities: Mapping[str, Any]) -> str:
    """The type of the block in which this agent gets an attachment."""
    best, *others = _FORMS[attachment.kind]
    needed = NEEDS.get(best)
    if needed is None or supports(prompt_capabilities, (needed,)):
        return best
    return others[0]


def block_of(attachment: Attachment, prompt_capabilities: Mapping[str, Any]) -> Block:
    """An attachment as a content block that this agent takes.

    Raises:
        UsageError: the agent would need a link, and there is nothing to link to.
    """
    form = takes(attachment, prompt_capabilities)
    mime = {"mimeType": attachment.mime} if attachment.mime else {}
    if form == "text":
        return {"type": "text", "text": _inlined(attachment)}
    if form == "resource":
        contents = {"uri": attachment.uri, "text": attachment.text, **mime}
        return {"type": "resource", "resource": contents}
    if form == "resource_link":
        return _link(attachment, mime)
    uri = {"uri": attachment.uri} if attachment.uri and form == "image" else {}
    return {"type": form, "data": attachment.data, "mimeType": attachment.mime, **uri}


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is to be sent: the text as written, what goes with it, and ``_meta`` for the agent."""

    text: str
    attachments: Sequence[Attachment] = ()
    meta: Mapping[str, Any] | None = None


def blocks(
    text: str, attachments: Sequence[Attachment], prompt_capabilities: Mapping[str, Any]
) -> list[Block]:
    """A prompt as content blocks: its text, if there is any, then one for each attachment.

    Args:
        text: as written.
        attachments: in the order in which they are to be sent.
        prompt_capabilities: the agent's ``promptCapabilities``.

    Raises:
        UsageError: as `block_of`.
    """
    first: list[Block] = [{"type": "text", "text": text}] if text.strip() else []
    return first + [block_of(attachment, prompt_capabilities) for attachment in attachments]


def sent_items(
    attachments: Sequence[Attachment], prompt_capabilities: Mapping[str, Any]
) -> list[SentItem]:
    """What `Reducer.sent` shows of attachments: the very blocks that the agent got.

    Raises:
        UsageError: as `block_of`.
    """
    return [
        SentItem(item.name, block_of(item, prompt_capabilities), item.bytes, item.note)
        for item in attachments
    ]


def _inlined(attachment: Attachment) -> str:
    """Text as a fenced block; agents join text blocks, so it begins a paragraph of its own."""
    longest = max(map(len, re.findall("`{3,}", attachment.text)), default=2)
    fence = "`" * (longest + 1)
    about = f" ({attachment.note})" if attachment.note else ""
    word = _FENCE_WORDS.get(attachment.mime, "")
    return f"\n\n@{attachment.name}{about}:\n{fence}{word}\n{attachment.text}\n{fence}\n"


def _link(attachment: Attachment, mime: Mapping[str, str]) -> Block:
    if not attachment.uri:
        raise UsageError(
            f"this agent takes no {attachment.kind} in prompts, and @{attachment.name} is no file",
            remedy="Save it as a file and mention that, or use an agent that takes it.",
        )
    size = attachment.size if attachment.size is not None else attachment.bytes
    return {
        "type": "resource_link",
        "uri": attachment.uri,
        "name": attachment.name,
        **mime,
        **({"size": size} if size is not None else {}),
    }


# -- mentions ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mention:
    """A mention in a prompt.

    Attributes:
        start, end: where it is in the text, from its ``@`` on.
        target: what it names, without ``@`` and quotes.
        quoted: it can only be a path.
    """

    start: int
    end: int
    target: str
    quoted: bool = False


# What comes before a mention: no letter (an e-mail address; in scripts without spaces between
# words a letter may), no backslash, no part of a URL or of a package's name.
_BEFORE: Final = r"(?<![^\W\u2e80-\uffff])(?<![\\@/.+%-])"
_MENTION: Final = re.compile(
    rf"""{_BEFORE}@(?:"(?P<quoted>[^"\n]+)"|(?P<cell>cell:[-\w]+)|(?P<word>(?:~/)?[\w./][\w./-]*))"""
)
_OPEN: Final = re.compile(
    rf"""{_BEFORE}@(?:(?P<quoted>"[^"\n]*)|(?P<word>cell:-?\d*|(?:~/)?[\w./-]*))\Z"""
)
_FENCE: Final = re.compile(r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*(`{3,}|~{3,})([^\n]*)")
_TICKS: Final = re.compile(r"`+")


def find_mentions(text: str) -> list[Mention]:
    """The mentions in a prompt, in order."""
    mentions = []
    code = _code_spans(text)
    starts = [start for start, _ in code]
    for match in _MENTION.finditer(text):
        before = bisect_right(starts, match.start()) - 1
        if before >= 0 and match.start() < code[before][1]:
            continue
        quoted = match["quoted"]
        if quoted is not None:
            if quoted.strip():
                mentions.append(Mention(match.start(), match.end(), quoted, True))
            continue
        target = (match["cell"] or match["word"]).rstrip("./-")
        if target not in ("", "~"):
            mentions.append(Mention(match.start(), match.start() + 1 + len(target), target))
    return mentions


def _code_spans(text: str) -> list[tuple[int, int]]:
    """Where fenced and inline code is, in order; a fence that is not closed goes to the end."""
    spans: list[tuple[int, int]] = []
    fence, opened = "", 0
    paragraph = at = 0
    for line in text.split("\n"):
        end = at + len(line) + 1
        match = _FENCE.match(line)
        if fence:
            if match is not None and _closes(match, fence):
                spans.append((opened, end))
                fence, paragraph = "", end
        elif match is not None and not (match[1][0] == "`" and "`" in match[2]):
            spans += _inline_code(text, paragraph, at)
            fence, opened = match[1], at
        elif not line.strip():
            spans += _inline_code(text, paragraph, at)
            paragraph = end
        at = end
    if fence:
        spans.append((opened, len(text)))
    else:
        spans += _inline_code(text, paragraph, len(text))
    return spans


def _closes(match: re.Match[str], fence: str) -> bool:
    return match[1][0] == fence[0] and len(match[1]) >= len(fence) and not match[2].strip()


def _inline_code(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Code between runs of equally many backticks in a paragraph (CommonMark, 6.1)."""
    runs = [(match.start(), match.end()) for match in _TICKS.finditer(text, start, end)]
    by_length: dict[int, list[int]] = {}
    for run_start, run_end in runs:
        by_length.setdefault(run_end - run_start, []).append(run_start)
    reached = start
    for run_start, run_end in runs:
        if run_start < reached:
            continue
        # Of a run after a backslash the first is escaped; the others may open.
        escaped = run_start > start and text[run_start - 1] == "\\"
        length = run_end - run_start - escaped
        closing = by_length.get(length, [])
        index = bisect_right(closing, run_end - 1)
        if length and index < len(closing):
            reached = closing[index] + length
            yield run_end - length, reached


# -- completion -------------------------------------------------------------------------------


def open_mention(text_before_cursor: str) -> tuple[int, str] | None:
    """The mention that is being typed: where its ``@`` is, and what follows it so far."""
    match = _OPEN.search(text_before_cursor)
    if match is None or any(
        start <= match.start() < end for start, end in _code_spans(text_before_cursor)
    ):
        return None
    return match.start(), (match["quoted"] or match["word"])


def complete_mention(
    text_before_cursor: str, *, names: Iterable[str], paths: Iterable[str], cells: int
) -> tuple[int, list[str]]:
    """What fits a mention that is being typed.

    Args:
        text_before_cursor: of the prompt.
        names: of variables; those that begin with ``_`` are offered once that is typed.
        paths: that fit what is typed of one, as they are written; directories end with ``/``.
        cells: how many there are.

    Returns:
        Where the text begins that a match replaces, and the matches, each with its ``@``; outside
        of a mention, the cursor and none.
    """
    found = open_mention(text_before_cursor)
    if found is None:
        return len(text_before_cursor), []
    start, typed = found
    offered = [_written(path, quoted=typed.startswith('"')) for path in paths]
    if not typed.startswith('"'):
        hidden = typed.startswith("_")
        shown = sorted(name for name in names if hidden or not name.startswith("_"))
        offered = [*shown, *_cells(typed, cells), "notebook", "error", *offered]
    matches = [f"@{word}" for word in offered if word.startswith(typed)]
    return start, list(dict.fromkeys(matches))


def _cells(typed: str, count: int) -> list[str]:
    if not typed.startswith("cell:"):
        return ["cell:"] if count else []
    latest = [f"cell:{number}" for number in range(count, 0, -1)]
    return [f"cell:{-back}" for back in range(1, min(count, 9) + 1)] + latest


def _written(path: str, *, quoted: bool) -> str:
    """A path as a mention takes it; a quotation that may go on is left open."""
    if not quoted and re.fullmatch(r"(?:~/)?[\w./][\w./-]*", path):
        return path
    return f'"{path}' if path.endswith("/") else f'"{path}"'
