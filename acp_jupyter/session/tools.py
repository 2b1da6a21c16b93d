"""Tool calls, and the terminals that they show.

A tool call belongs to the turn in which it was announced, however late it changes. What the agent
says of a terminal that the client itself runs is not believed.
"""

from __future__ import annotations

import base64
import binascii
import codecs
from collections.abc import Callable
from typing import Any, Final

from ..protocol.dialects import content_block, dicts, identifier
from .transcript import (
    TERMINAL_TAIL,
    TerminalEntry,
    TerminalState,
    ToolCallEntry,
    Transcript,
    Turn,
)

Dict = dict[str, Any]


class Tools:
    """Applies the updates of tool calls and terminals.

    Args:
        transcript: the state to write.
        nulls_clear: a null in a patch clears (version 2) instead of leaving as it is (version 1).
    """

    def __init__(self, transcript: Transcript, nulls_clear: bool) -> None:
        self.transcript = transcript
        self._nulls_clear = nulls_clear
        self.handlers: dict[str, Callable[[Dict], bool]] = {
            "tool_call": self._tool_call,
            "tool_call_update": self._tool_call_update,
            "tool_call_content_chunk": self._tool_call_content_chunk,
            "terminal_update": self._terminal_update,
            "terminal_output_chunk": self._terminal_output_chunk,
        }

    # -- tool calls -------------------------------------------------------------------------

    def _tool_call(self, update: Dict) -> bool:
        ident = identifier(update.get("toolCallId"))
        if ident is None:
            return False
        turn = self.transcript.turn
        known = self.transcript.tool_calls.get(ident)
        # Some agents count their calls from 1 again in each turn: what is announced anew in a
        # later turn is another call.
        if known is None or (known.turn != turn.number and turn.running):
            known = self._new_tool_call(ident)
        self._patch(known, update)
        return True

    def _tool_call_update(self, update: Dict) -> bool:
        ident = identifier(update.get("toolCallId"))
        if ident is None:
            return False
        call = self.transcript.tool_calls.get(ident)
        if call is None or self._starts_again(call, update):
            call = self._new_tool_call(ident)
        self._patch(call, update)
        return True

    def _starts_again(self, call: ToolCallEntry, update: Dict) -> bool:
        """An update that can only be the first one of another call with the same id."""
        turn = self.transcript.turn
        return (
            turn.running
            and call.turn != turn.number
            and call.status in call.FINAL
            and "title" in update
            and update.get("status", "pending") in ("pending", "in_progress")
        )

    def referred(self, reference: Dict) -> ToolCallEntry:
        """The tool call that a permission request names, made from it if never announced."""
        ident = reference["toolCallId"]
        call = self.transcript.tool_calls.get(ident)
        if call is None or (call.turn != self.transcript.turn.number and call.finished):
            call = self._new_tool_call(ident)
            call.announced = False
        self._patch(call, reference, announce=False)
        return call

    def _new_tool_call(self, ident: str) -> ToolCallEntry:
        transcript = self.transcript
        call = ToolCallEntry(transcript.next_id(), transcript.turn.number, tool_call_id=ident)
        transcript.tool_calls[ident] = call
        transcript.add(call)
        return call

    def _patch(self, call: ToolCallEntry, update: Dict, *, announce: bool = True) -> None:
        before = call.content
        call.meta = _meta_of(update) or call.meta
        for key, attribute, kind, default in _TOOL_CALL_FIELDS:
            if key not in update:
                continue
            value = update[key]
            if value is None:
                if self._nulls_clear:
                    setattr(call, attribute, default() if default is list else default)
            elif type(value) is kind:
                setattr(call, attribute, value if kind is str else dicts(value))
        for key, attribute in (("rawInput", "raw_input"), ("rawOutput", "raw_output")):
            if key in update and (update[key] is not None or self._nulls_clear):
                setattr(call, attribute, update[key])
        if "content" in update:
            call.content = [_tool_content(item) for item in call.content]
            for item in call.content:
                self._show_in(call, item)
        if "diffs" in update:
            call.content = _with_diffs(call.content, before, update["diffs"])
        call.announced = call.announced or announce
        self._turn_to(call, update)
        self._streamed_beside(call, update)
        if call.status in call.FINAL:
            self.end_terminals(call)
        self.transcript.touch(call)

    def _turn_to(self, call: ToolCallEntry, update: Dict) -> None:
        """The agent works where its newest location is."""
        if "locations" in update and call.locations:
            self.transcript.focus = dict(call.locations[-1])

    def _tool_call_content_chunk(self, update: Dict) -> bool:
        ident = identifier(update.get("toolCallId"))
        item = update.get("content")
        if ident is None or type(item) is not dict:
            return False
        call = self.transcript.tool_calls.get(ident) or self._new_tool_call(ident)
        call.content.append(_tool_content(item))
        self._show_in(call, item)
        self.transcript.touch(call)
        return True

    # -- terminals --------------------------------------------------------------------------

    def terminal(self, ident: str) -> TerminalState:
        """The state of a terminal, made if it is not known yet."""
        terminal = self.transcript.terminals.get(ident)
        if terminal is None:
            terminal = TerminalState(ident)
            self.transcript.terminals[ident] = terminal
        terminal.turn = self.transcript.turn.number
        return terminal

    def touch_terminal(self, terminal: TerminalState) -> None:
        """Note that a terminal changed: the entry that shows it has to be rendered again."""
        if terminal.shown_by is not None:
            self.transcript.touch(terminal.shown_by)
        elif self.transcript.turn.footer is not None and not terminal.own:
            self.show_terminal(terminal)

    def show_terminal(self, terminal: TerminalState) -> None:
        """Give a terminal an entry of its own, where no tool call shows it."""
        if terminal.shown_by is None:
            transcript = self.transcript
            entry = TerminalEntry(
                transcript.next_id(), transcript.turn.number, terminal_id=terminal.terminal_id
            )
            terminal.shown_by = entry
            transcript.add(entry)

    def show_rest(self, turn: Turn) -> None:
        """Show what no tool call of that turn came to show."""
        for terminal in self.transcript.terminals.values():
            if terminal.turn == turn.number and not terminal.own:
                self.show_terminal(terminal)

    def _agents_terminal(self, ident: Any) -> TerminalState | None:
        """A terminal that the agent may tell of: any but the client's own."""
        ident = identifier(ident)
        known = None if ident is None else self.transcript.terminals.get(ident)
        if ident is None or (known is not None and known.own):
            return None
        return self.terminal(ident)

    def _show_in(self, call: ToolCallEntry, item: Dict) -> None:
        if item.get("type") == "terminal" and (ident := identifier(item.get("terminalId"))):
            self.terminal(ident).shown_by = call

    def _streamed_beside(self, call: ToolCallEntry, update: Dict) -> None:
        """One widely used agent streams the output of its own terminals in ``_meta``.

        It is display only: nothing is decided by it. A terminal that no call shows is shown by
        the one whose update brought its output.
        """
        meta = update.get("_meta")
        if type(meta) is not dict:
            return
        for key in ("terminal_output_delta", "terminal_output"):
            data = meta.get(key)
            if type(data) is dict and type(data.get("data")) is str:
                terminal = self._agents_terminal(data.get("terminal_id"))
                if terminal is not None:
                    _add_output(terminal, data["data"])
                    if terminal.shown_by is None:
                        item = {"type": "terminal", "terminalId": terminal.terminal_id}
                        call.content = [*call.content, item]
                        terminal.shown_by = call
                    break
        ended = meta.get("terminal_exit")
        if type(ended) is dict:
            terminal = self._agents_terminal(ended.get("terminal_id"))
            if terminal is not None:
                _set_exit(terminal, ended, "exit_code")

    def end_terminals(self, call: ToolCallEntry) -> None:
        """An agent that says nothing of its terminal's end has at least ended the call.

        What it says of that terminal later still counts.
        """
        for item in call.content:
            ident = identifier(item.get("terminalId")) if item.get("type") == "terminal" else None
            terminal = None if ident is None else self.transcript.terminals.get(ident)
            if terminal is not None and not terminal.own:
                terminal.running = False

    def _terminal_update(self, update: Dict) -> bool:
        """Version 2: a patch, in which null clears."""
        terminal = self._agents_terminal(update.get("terminalId"))
        if terminal is None:
            return False
        if "command" in update:
            command = update["command"]
            terminal.argv = [command] if type(command) is str else []
        if "cwd" in update:
            terminal.cwd = update["cwd"] if type(update["cwd"]) is str else ""
        if "output" in update:
            data = update["output"]
            data = data.get("data") if type(data) is dict else data
            terminal.output, terminal.truncated, terminal.decoder = "", False, None
            if type(data) is str:
                _add_output(terminal, _decode_bytes(terminal, data))
        if "exitStatus" in update:
            status = update["exitStatus"]
            _set_exit(terminal, status if type(status) is dict else None, "exitCode")
        self.touch_terminal(terminal)
        return True

    def _terminal_output_chunk(self, update: Dict) -> bool:
        data = update.get("data")
        terminal = self._agents_terminal(update.get("terminalId")) if type(data) is str else None
        if terminal is None:
            return False
        _add_output(terminal, _decode_bytes(terminal, update["data"]))
        self.touch_terminal(terminal)
        return True


_TOOL_CALL_FIELDS: Final[tuple[tuple[str, str, type, Any], ...]] = (
    ("title", "title", str, ""),
    ("name", "name", str, None),
    ("kind", "kind", str, "other"),
    ("status", "status", str, "pending"),
    ("content", "content", list, list),
    ("locations", "locations", list, list),
)


def _with_diffs(content: list[Dict], before: list[Dict], diffs: Any) -> list[Dict]:
    """An older dialect sends the diff beside the content: each stays while the other changes."""
    kept = dicts(diffs) or [item for item in before if item.get("type") == "diff"]
    return [item for item in content if item.get("type") != "diff"] + kept


def _tool_content(item: Dict) -> Dict:
    """A tool call's content item with its block in the official form."""
    if item.get("type") == "content":
        block = content_block(item.get("content"))
        return {**item, "content": block} if block is not None else item
    return item


def _add_output(terminal: TerminalState, text: str) -> None:
    output = terminal.output + text
    if len(output) > TERMINAL_TAIL:
        output = output[-TERMINAL_TAIL:]
        terminal.truncated = True
    terminal.output = output


def _set_exit(terminal: TerminalState, status: Dict | None, key: str) -> None:
    """The terminal has ended, or (``None``) the agent takes that back."""
    code, signal = (None, None) if status is None else (status.get(key), status.get("signal"))
    terminal.exit_code = code if type(code) is int else None
    terminal.signal = signal if type(signal) is str else None
    terminal.running = status is None
    if status is not None and terminal.decoder is not None:
        _add_output(terminal, terminal.decoder.decode(b"", True))
        terminal.decoder = None


def _decode_bytes(terminal: TerminalState, data: str) -> str:
    """Version 2 sends bytes in base64, each chunk on its own (C36), cut anywhere in a character."""
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return data
    if terminal.decoder is None:
        terminal.decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return terminal.decoder.decode(raw)


def _meta_of(update: Dict) -> Dict | None:
    meta = update.get("_meta")
    return meta if type(meta) is dict else None
