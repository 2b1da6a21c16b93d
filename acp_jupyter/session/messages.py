"""Messages of the agent, its thoughts, and what it says the user said.

Chunks go to the message they continue: the one with their id, or the one that is open. A chunk
that is like the one before it takes the shortest way (`Tail`), because nothing is as frequent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec

from ..protocol.dialects import content_block, identifier
from .transcript import Block, Entry, MessageEntry, NoticeEntry, TextBuffer, Transcript, Turn

Dict = dict[str, Any]
Role = Literal["agent", "user", "thought"]

REORDERED: Final = 256
"""Numbered chunks (an older dialect) among which a late one finds its place."""


class Tail(msgspec.Struct, frozen=True):
    """Where the next chunk goes if it is like the one before it."""

    kind: str
    message_id: Any
    message: MessageEntry
    buffer: TextBuffer
    entries: list[Entry]
    length: int  # of entries; another number means that something came in between


class Messages:
    """Applies the updates that messages are made of.

    Args:
        transcript: the state to write.
        by_id: each id has one entry (version 2). In version 1 what comes after a tool call is
            shown below it, also under a known id.
    """

    def __init__(self, transcript: Transcript, by_id: bool) -> None:
        self.transcript = transcript
        self.tail: Tail | None = None
        self._by_id = by_id
        self.handlers: dict[str, Callable[[Dict], bool]] = {
            "agent_message_chunk": lambda update: self._chunk(update, "agent"),
            "agent_thought_chunk": lambda update: self._chunk(update, "thought"),
            "user_message_chunk": lambda update: self._chunk(update, "user"),
            "agent_message": lambda update: self._message(update, "agent"),
            "agent_thought": lambda update: self._message(update, "thought"),
            "user_message": lambda update: self._message(update, "user"),
        }

    def append(self, tail: Tail, update: Dict) -> bool:
        """The shortest way: more text for the message that grows.

        Nothing but a chunk of the same kind and id comes this way, so that all that opening a
        message decides was decided by the chunk before it.
        """
        block = update.get("content")
        if type(block) is not dict or block.get("type") != "text":
            return False
        text = block.get("text")
        if type(text) is not str or update.get("messageId") != tail.message_id:
            return False
        if "index" in update or len(tail.entries) != tail.length:
            return False
        tail.buffer.append(text)
        self.transcript.touch(tail.message)
        return True

    def close(self) -> None:
        """The message that is open is complete."""
        self.tail = None
        self.transcript.turn.open_message = None

    def _chunk(self, update: Dict, role: Role) -> bool:
        block = update.get("content")
        if type(block) is not dict:
            return False
        if block.get("type") == "text":
            text = block.get("text")
            if type(text) is not str:
                return False
            if not text:
                return True
            message = self._open(update.get("messageId"), role)
            index = update.get("index")
            if type(index) is int:
                _insert(message, index, text)
            else:
                message.numbered.clear()
                _text_part(message).append(text)
        else:
            official = content_block(block)
            if official is None:
                return False
            message = self._open(update.get("messageId"), role)
            message.numbered.clear()
            message.parts.append(official)
        if message.echo:
            self._check_echo(message)
        if type(message.parts[-1]) is TextBuffer and not (message.echo or message.numbered):
            entries = self.transcript.turn_of(message).entries
            self.tail = Tail(
                update["sessionUpdate"],
                update.get("messageId"),
                message,
                message.parts[-1],
                entries,
                len(entries),
            )
        self.transcript.touch(message)
        return True

    def _open(self, message_id: Any, role: Role) -> MessageEntry:
        """The message a chunk goes on with, or a new one."""
        transcript = self.transcript
        turn = transcript.turn
        message = turn.open_message
        if (
            message is not None
            and message.role == role
            and _is_last(turn, message)
            and (message_id is None or message.message_id in (None, message_id))
        ):
            if message.message_id is None:
                self._name(message, message_id)
            return message
        known = transcript.messages.get((role, message_id)) if type(message_id) is str else None
        if known is not None and (
            self._by_id or known.turn != turn.number or turn.ended is not None
        ):
            return known
        message = MessageEntry(transcript.next_id(), turn.number, role=role)
        message.echo = role == "user" and bool(turn.prompt)
        self._name(message, message_id)
        turn.open_message = message
        transcript.add(message)
        return message

    def _name(self, message: MessageEntry, message_id: Any) -> None:
        ident = identifier(message_id)
        if ident is not None:
            message.message_id = ident
            self.transcript.messages[message.role, ident] = message

    def _check_echo(self, message: MessageEntry) -> None:
        """A user message that repeats the running prompt is not shown a second time."""
        prompt = self.transcript.turn_of(message).prompt
        texts = [block.get("text", "") for block in prompt if block.get("type") == "text"]
        kinds = {block.get("type") for block in prompt}
        text = message.text
        message.echo = any(sent.startswith(text) for sent in ("".join(texts), *texts)) and all(
            isinstance(part, TextBuffer) or part.get("type") in kinds for part in message.parts
        )

    def _message(self, update: Dict, role: Role) -> bool:
        """Version 2: a whole message; omitted content keeps, null clears, a list replaces."""
        message_id = identifier(update.get("messageId"))
        content = update.get("content")
        if message_id is None or type(content) not in (list, type(None)):
            return False
        message = self.transcript.messages.get((role, message_id))
        if message is None:
            message = self._open(message_id, role)
        if "content" in update:
            message.numbered.clear()
            message.parts = parts(content or [])
        if role == "user" and self.transcript.turn_of(message).prompt:
            self._check_echo(message)
        self.transcript.touch(message)
        return True


def parts(blocks: list[Any]) -> list[TextBuffer | Block]:
    """Content blocks as the parts of a message; what is no block is skipped."""
    result: list[TextBuffer | Block] = []
    for item in blocks:
        add_part(result, item)
    return result


def add_part(result: list[TextBuffer | Block], item: Any) -> bool:
    """Append a content block to the parts of a message, unless it is none."""
    block = content_block(item)
    if block is None:
        return False
    text = block.get("text")
    if block["type"] != "text" or type(text) is not str:
        result.append(block)
    elif result and isinstance(result[-1], TextBuffer):
        result[-1].append(text)
    else:
        result.append(TextBuffer(text))
    return True


def _is_last(turn: Turn, message: MessageEntry) -> bool:
    """Whether nothing but notices came since: they do not cut a message in two."""
    for entry in reversed(turn.entries):
        if not isinstance(entry, NoticeEntry):
            return entry is message
    return False


def _text_part(message: MessageEntry) -> TextBuffer:
    part = message.parts[-1] if message.parts else None
    if not isinstance(part, TextBuffer):
        part = TextBuffer()
        message.parts.append(part)
    return part


def _insert(message: MessageEntry, index: int, text: str) -> None:
    """The older dialect numbers its chunks: one that comes late goes to its place."""
    chunks = message.numbered
    buffer = _text_part(message)
    if not chunks or index >= chunks[-1][0]:
        chunks.append((index, text))
        buffer.append(text)
    else:
        length = sum(len(chunk) for _, chunk in chunks)
        chunks.append((index, text))
        chunks.sort(key=lambda chunk: chunk[0])
        buffer.replace_end(length, "".join(chunk for _, chunk in chunks))
    if len(chunks) >= 2 * REORDERED:
        del chunks[:REORDERED]
