"""A policy made of decisions, for runs that nobody watches. Pure.

Rules:

- Only what the user decided counts, by hand or by an answer remembered from that.
- Each rule is as narrow as the decision: this command exactly, or this file, of this agent. What a
  rule cannot say that narrowly is left out, and named.
- What was denied once is denied, whatever else was answered; denials come first.
- Decisions come from a notebook, which anybody may have written: they are checked like the rules
  of a file, protected files are left out whatever they say, and the user sees what is made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..errors import UsageError
from ..rendering.characters import one_line
from .decisions import Record
from .patterns import literal
from .policy_file import parse_policy
from .protected import is_protected

__all__ = ["Made", "as_json", "as_toml", "make_policy", "records_in"]

_DECIDED: Final = {"allowed": "allow", "denied": "deny"}
_ESCAPES: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


@dataclass(frozen=True, slots=True)
class Made:
    """What became of some decisions.

    Attributes:
        rules: as in a policy file.
        left_out: a line for each decision that no rule could be made of, with the reason.
    """

    rules: tuple[Mapping[str, Any], ...]
    left_out: tuple[str, ...]


def make_policy(records: Iterable[Record]) -> Made:
    """Make rules of decisions."""
    rules: dict[str, dict[str, Any]] = {}
    left_out: dict[str, None] = {}
    for record in records:
        if record.outcome not in _DECIDED or record.by not in ("user", "remembered"):
            continue
        try:
            rule = _rule(record)
        except UsageError as error:
            left_out[f"{_about(record)}: {error.message}"] = None
            continue
        rules[json.dumps(rule, sort_keys=True)] = rule
    ordered = sorted(rules.values(), key=lambda rule: rule["action"] != "deny")
    return Made(tuple(ordered), tuple(left_out))


def _about(record: Record) -> str:
    about = record.command or " ".join(record.paths) or record.title
    return one_line(f"{record.outcome} {'+'.join(record.kinds)} {about}", 200)


def _rule(record: Record) -> dict[str, Any]:
    """The rule that says what was decided, and no more.

    Raises:
        UsageError: there is none.
    """
    if not record.exact or len(record.kinds) != 1:
        raise UsageError("only a person can tell what it is about")
    kind = record.kinds[0]
    rule: dict[str, Any] = {"action": _DECIDED[record.outcome], "kind": kind}
    if kind == "execute" and record.command:
        if record.paths:
            raise UsageError("it is about a command and files")
        rule["command"] = literal(record.command)
        if record.shell and rule["action"] == "allow":
            rule["shell"] = True
    elif kind in ("edit", "read") and len(set(record.paths)) == 1:
        if is_protected(record.paths[0]):
            raise UsageError("it is about a protected file, which is asked for each time")
        rule["path"] = literal(record.paths[0])
    else:
        raise UsageError("it is not about one command or one file")
    try:
        "".join(map(str, rule.values())).encode()
    except UnicodeEncodeError as error:
        raise UsageError("it is no valid Unicode text") from error
    if record.agent:
        rule["agent"] = literal(record.agent)
    parse_policy({"rules": [rule]})
    return rule


def as_toml(made: Made, *, source: str) -> str:
    """The policy as a file; ``source`` names the notebook in its first line."""
    lines = [
        f"# Made from the decisions in {one_line(source, 200)}.",
        "# What is not said here is asked; where nobody can answer, that is a no.",
        'default = "ask"',
    ]
    for rule in made.rules:
        lines += ["", "[[rules]]"]
        lines += [f"{key} = {_toml(value)}" for key, value in rule.items()]
    return "\n".join(lines) + "\n"


def as_json(made: Made) -> str:
    """The same as JSON."""
    return json.dumps({"default": "ask", "rules": [dict(rule) for rule in made.rules]}, indent=2)


def _toml(value: str | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    # https://toml.io/en/v1.0.0#string: control characters are escaped, all other ones stand.
    escaped = re.sub(
        r'[\x00-\x1f\x7f-\x9f\\"\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]',
        lambda match: _ESCAPES.get(match[0], f"\\u{ord(match[0]):04X}"),
        value,
    )
    return f'"{escaped}"'


def records_in(outputs: Sequence[Mapping[str, Any]]) -> list[object]:
    """What stands as decisions in the metadata of a notebook's outputs."""
    found: list[object] = []
    for output in outputs:
        metadata = output.get("metadata")
        ours = metadata.get("acp") if isinstance(metadata, Mapping) else None
        decisions = ours.get("decisions") if isinstance(ours, Mapping) else None
        if isinstance(decisions, list):
            found += decisions
    return found
