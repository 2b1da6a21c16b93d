"""What the agent reports besides messages and tool calls: plans, what the session offers, notices.

What is full state (commands, mode, options, title, usage) is kept in `SessionInfo`, the last value
wins, and a change of commands, mode or options is one line in the transcript.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec

from ..protocol.dialects import config_options, dicts, identifier
from ..protocol.v2 import IDLE, NO_REASON, background, ended
from .messages import add_part, parts
from .transcript import (
    KEPT_RAW,
    CompactionEntry,
    NoticeEntry,
    PlanEntry,
    Transcript,
    UnknownEntry,
)

Dict = dict[str, Any]
Level = Literal["info", "warning", "error"]

RAW_TEXT: Final = 4000
"""Characters of an unknown update that are kept."""

NOTICE_TEXT: Final = 500
"""Characters of the line about a change."""

DETAIL_NAMES: Final = 200
"""Slash commands listed in the notice about them (one agent sends half a megabyte of them)."""

UNKNOWN_KINDS: Final = 50
"""Kinds of unknown updates told apart in one turn; further ones are one entry."""

SUBAGENTS: Final = 100
"""Subagents remembered; their ids are the agent's, as many as it likes."""

LARGEST_COST: Final = 10**15
"""A number beyond it is no amount; one with hundreds of digits cannot even be computed with."""

STATES: Final = frozenset({"running", "idle", "requires_action", "unknown"})

_ABSENT: Final[Any] = object()


class Reports:
    """Applies the updates named in the module.

    Args:
        transcript: the state to write.

    Attributes:
        expected: the option that the user is setting, and to what.
        replaying: it is a history: who changed what then is not known.
    """

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self.expected: tuple[str, str | bool] | None = None
        self.replaying = False
        self.handlers: dict[str, Callable[[Dict], bool]] = {
            "plan": self._plan,
            "plan_update": self._plan_update,
            "plan_removed": self._plan_removed,
            "available_commands_update": self._commands,
            "current_mode_update": self._current_mode,
            "config_option_update": self._config_options,
            "session_info_update": self._session_info,
            "usage_update": self._usage,
            "state_update": self._state,
            "notice": self._notice_update,
            "compaction_update": self._compaction,
            "compaction_summary_chunk": self._compaction_chunk,
            "subagent_update": self._subagent,
            "session_message": self._session_message,
            "session_message_chunk": self._session_message_chunk,
        }

    # -- plans ------------------------------------------------------------------------------

    def _plan(self, update: Dict) -> bool:
        if type(update.get("entries")) is not list:
            return False
        self._set_plan(self._plan_entry(None), update["entries"], None, None)
        return True

    def _plan_update(self, update: Dict) -> bool:
        plan = update.get("plan")
        body: Dict = plan if type(plan) is dict else update
        ident = body.get("planId", body.get("id"))
        if ident is not None and identifier(ident) is None:
            return False
        items = body.get("entries", body.get("items"))
        text, uri = body.get("content", body.get("markdown")), body.get("uri", body.get("path"))
        if type(items) is not list and type(text) is not str and type(uri) is not str:
            known = self.transcript.plans.get(ident)
            if known is not None and type(plan) is dict:  # it is replaced, by what is shown raw
                self._set_plan(known, [], None, None)
                known.removed = True
            return False
        self._set_plan(self._plan_entry(ident), items, text, uri)
        return True

    def _set_plan(self, plan: PlanEntry, items: Any, text: Any, uri: Any) -> None:
        plan.items = dicts(items)
        plan.text = text if type(text) is str else None
        plan.uri = uri if type(uri) is str else None
        plan.removed = False
        self.transcript.touch(plan)

    def _plan_removed(self, update: Dict) -> bool:
        ident = update.get("planId", update.get("id"))
        plan = self.transcript.plans.get(ident) if ident is None or type(ident) is str else None
        if plan is not None:
            plan.removed = True
            self.transcript.touch(plan)
        return plan is not None

    def _plan_entry(self, ident: str | None) -> PlanEntry:
        """The plan of that id in the current turn: a new turn shows its plan anew.

        A late one goes to the turn that owns it if it has an id.
        """
        turn = self.transcript.turn
        plan = self.transcript.plans.get(ident)
        if plan is None or (plan.turn != turn.number and (turn.running or ident is None)):
            plan = PlanEntry(self.transcript.next_id(), turn.number, plan_id=ident)
            self.transcript.plans[ident] = plan
            self.transcript.add(plan)
        return plan

    # -- what the session offers ------------------------------------------------------------

    def _commands(self, update: Dict) -> bool:
        if type(update.get("availableCommands")) is not list:
            return False
        self.commands(dicts(update["availableCommands"]))
        return True

    def commands(self, offered: list[Dict]) -> None:
        """Take over the slash commands; of a kind that nobody knows they are commands, too."""
        info = self.transcript.info
        commands = [command for command in offered if type(command.get("name")) is str]
        if commands == info.commands:
            return
        info.commands = commands
        names = [f"/{command['name'][:80]}" for command in commands]
        text = f"{len(names)} slash commands" if len(names) != 1 else "1 slash command"
        self.notice("commands", text, detail=" ".join(names[:DETAIL_NAMES]), count=False)

    def _current_mode(self, update: Dict) -> bool:
        mode = identifier(update.get("currentModeId"))
        if mode is None:
            return False
        info = self.transcript.info
        before = info.current_mode
        if before != mode:
            info.current_mode = mode
            name = _change(_name_of(info.modes, "id", before), _name_of(info.modes, "id", mode))
            asked = self.expected is not None and self.expected[1] == mode
            self._tell("mode", f"mode: {name}{self._by_agent(before, asked)}")
        return True

    def _config_options(self, update: Dict) -> bool:
        if type(update.get("configOptions")) is not list:
            return False
        info = self.transcript.info
        before = {str(old.get("id")): old.get("currentValue") for old in info.config_options}
        info.config_options = config_options(update["configOptions"])
        changed = {
            str(option.get("id")): option
            for option in info.config_options
            if before.get(str(option.get("id")), _ABSENT) != option.get("currentValue")
        }
        if changed:
            texts = [
                f"{option.get('name') or ident}: "
                f"{_change(before.get(ident), option.get('currentValue'))}"
                for ident, option in changed.items()
            ]
            asked = self.expected is not None and self.expected[0] in changed
            known = next((before[ident] for ident in changed if ident in before), None)
            self._tell("options", "; ".join(texts) + self._by_agent(known, asked))
        return True

    def _by_agent(self, before: Any, asked: bool) -> str:
        """Says so where something was changed that the user had not asked for."""
        return "" if before is None or asked or self.replaying else " (by the agent)"

    def _session_info(self, update: Dict) -> bool:
        info = self.transcript.info
        title, updated = update.get("title"), update.get("updatedAt")
        if any(value is not None and type(value) is not str for value in (title, updated)):
            return False
        if "title" in update:  # agents name a session again and again: no line for it
            info.title = title[:NOTICE_TEXT] if title else None
        if "updatedAt" in update:
            info.updated_at = updated
        return True

    def _usage(self, update: Dict) -> bool:
        usage: Dict = {key: update[key] for key in ("used", "size", "cost") if key in update}
        if type(usage.get("used")) is not int:
            return False
        cost = usage.get("cost")
        amount = cost.get("amount") if type(cost) is dict else None
        if type(amount) is int and abs(amount) > LARGEST_COST:
            del usage["cost"]
        self.transcript.info.usage = usage
        turn = self.transcript.turn
        turn.usage.update(usage)
        if turn.footer is not None:
            turn.footer.usage.update(usage)
            self.transcript.touch(turn.footer)
        return True

    def _state(self, update: Dict) -> bool:
        """Version 2 tells whether it works; the end of a turn is the client's to act on."""
        state = update.get("state")
        if type(state) is not str:
            return False
        self.transcript.info.state = state
        self.transcript.info.background = background(update)
        return state in STATES

    def own_work(self, update: Dict) -> None:
        """Say how work ended that no prompt had begun, unless it just did."""
        end = ended(update)
        before = self.transcript.info.state
        quiet = end.stop_reason in (NO_REASON, "end_turn", "cancelled")
        if update.get("state") != IDLE or before in (None, IDLE) or quiet:
            return
        message = end.error.get("message") if end.error is not None else None
        self.notice(
            "own-work",
            f"The agent's own work ended: {end.stop_reason}",
            level="error" if end.stop_reason == "error" else "warning",
            detail=message[:RAW_TEXT] if type(message) is str else "",
            source="agent",
        )

    # -- notices ----------------------------------------------------------------------------

    def notice(
        self,
        key: str,
        text: str,
        *,
        level: Level = "info",
        detail: str = "",
        source: Literal["client", "agent"] = "client",
        count: bool = True,
    ) -> NoticeEntry:
        """Show a line, or replace (and ``count``) the current turn's line with the same key."""
        transcript = self.transcript
        turn = transcript.turn
        entry = turn.notices.get((source, key))
        if entry is not None:
            entry.count += count
            entry.text = text
            entry.detail = detail or entry.detail
            transcript.touch(entry)
            return entry
        entry = NoticeEntry(
            transcript.next_id(),
            turn.number,
            key=key,
            level=level,
            text=text,
            detail=detail,
            source=source,
        )
        turn.notices[source, key] = entry
        transcript.add(entry)
        return entry

    def _tell(self, key: str, text: str) -> None:
        """One line for what is so now: a later change takes its place, it is not counted."""
        self.notice(key, text[:NOTICE_TEXT], source="agent", count=False)

    def _notice_update(self, update: Dict) -> bool:
        title = update.get("title")
        if type(title) is not str:
            return False
        severity, detail = update.get("severity"), update.get("description")
        level: Level = severity if severity in ("warning", "error") else "info"
        self.notice(
            f"agent:{title}",
            title,
            level=level,
            detail=detail if type(detail) is str else "",
            source="agent",
        )
        return True

    def _subagent(self, update: Dict) -> bool:
        """A session that this one started (unstable): a line with its name and state."""
        ident = identifier(update.get("sessionId"))
        if ident is None:
            return False
        subagents = self.transcript.info.subagents
        known = subagents.pop(ident, {})
        subagents[ident] = known
        if len(subagents) > SUBAGENTS:
            del subagents[next(iter(subagents))]
        known.update({key: update[key] for key in ("title", "description") if key in update})
        if "state" in update:
            state = update["state"]
            known["state"] = state.get("state") if type(state) is dict else None
        title, description, state = (known.get(key) for key in ("title", "description", "state"))
        text = f"subagent {title if type(title) is str and title else ident}"
        self.notice(
            f"subagent:{ident}",
            (f"{text}: {state}" if type(state) is str else text)[:NOTICE_TEXT],
            detail=description[:RAW_TEXT] if type(description) is str else "",
            source="agent",
            count=False,
        )
        return True

    def _session_message(self, update: Dict) -> bool:
        """A message between sessions (unstable): a line, its text folded."""
        entry = self._between_sessions(update.get("messageId"))
        if entry is None:
            return False
        ends = [identifier(update.get(f"{side}SessionId")) for side in ("sender", "recipient")]
        if any(ends):
            entry.text = f"message of session {ends[0] or '?'} to session {ends[1] or '?'}"[
                :NOTICE_TEXT
            ]
        if "content" in update:
            entry.detail = _plain(dicts(update["content"]))[:RAW_TEXT]
        return True

    def _session_message_chunk(self, update: Dict) -> bool:
        content = update.get("content")
        if type(content) is not dict:
            return False
        entry = self._between_sessions(update.get("messageId"))
        if entry is None:
            return False
        entry.detail = (entry.detail + _plain([content]))[:RAW_TEXT]
        return True

    def _between_sessions(self, message_id: Any) -> NoticeEntry | None:
        ident = identifier(message_id)
        if ident is None:
            return None
        key = f"session_message:{ident}"
        known = self.transcript.turn.notices.get(("agent", key))
        text = known.text if known is not None else "message between sessions"
        return self.notice(key, text, source="agent", count=False)

    # -- compaction, the unknown --------------------------------------------------------------

    def _compaction(self, update: Dict) -> bool:
        entry = self._compaction_entry(update.get("compactionId"))
        if entry is None:
            return False
        if type(update.get("status")) is str:
            entry.status = update["status"]
        if "summary" in update:
            entry.summary = parts(dicts(update["summary"]))
        if "error" in update:
            entry.error = update["error"] if type(update["error"]) is str else None
        self.transcript.touch(entry)
        return True

    def _compaction_chunk(self, update: Dict) -> bool:
        if type(update.get("content")) is not dict:
            return False
        entry = self._compaction_entry(update.get("compactionId"))
        if entry is None or not add_part(entry.summary, update["content"]):
            return False
        self.transcript.touch(entry)
        return True

    def _compaction_entry(self, ident: Any) -> CompactionEntry | None:
        ident = identifier(ident)
        if ident is None:
            return None
        transcript = self.transcript
        entry = transcript.compactions.get(ident)
        if entry is None:
            entry = CompactionEntry(
                transcript.next_id(), transcript.turn.number, compaction_id=ident
            )
            transcript.compactions[ident] = entry
            transcript.add(entry)
        return entry

    def unknown(self, update: Dict) -> None:
        """Show an update that is not understood: its kind, how often, the raw text folded."""
        kind = update.get("sessionUpdate")
        kind = kind[:80] if type(kind) is str else "(no kind)"
        transcript = self.transcript
        known = transcript.turn.unknown
        if kind not in known and len(known) >= UNKNOWN_KINDS:
            kind = "(more kinds)"
        entry = known.get(kind)
        if entry is None:
            entry = UnknownEntry(transcript.next_id(), transcript.turn.number, kind=kind)
            known[kind] = entry
            transcript.add(entry)
        entry.count += 1
        if len(entry.raw) < KEPT_RAW:
            entry.raw.append(msgspec.json.encode(update).decode()[:RAW_TEXT])
        transcript.touch(entry)


def _change(before: Any, now: Any) -> str:
    return f"{now}" if before is None else f"{before} → {now}"


def _name_of(items: list[Dict], key: str, ident: str | None) -> str | None:
    for item in items:
        if item.get(key) == ident and type(item.get("name")) is str:
            name: str = item["name"]
            return name
    return ident


def _plain(blocks: list[Dict]) -> str:
    """The text of content blocks, the others by their type."""
    texts = (block.get("text") for block in blocks)
    return "".join(
        text if type(text) is str else f"[{str(block.get('type'))[:40]}]"
        for block, text in zip(blocks, texts, strict=True)
    )
