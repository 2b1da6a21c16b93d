"""Reading policies: a mode, a file (TOML or JSON), or a dict.

A file::

    default = "ask"               # ask, deny or allow: where no rule matches

    [[rules]]                     # in order; the first one that matches decides
    action = "allow"
    kind = "edit"                 # execute, edit, read, other
    path = "src/**"               # relative to the session's folder

    [[rules]]
    action = "allow"
    command = "python -m pytest *"

Further fields: ``command_regex``, ``shell = true`` (the rule may allow lines for a shell) and
``agent`` (a glob for its name). Rules that deny or ask may also name the kinds that only the agent
tells of: delete, move, search, think, fetch, switch_mode.

A policy is read once, when it is set. A file within a session's folder is refused, because the
agent that works there could rewrite it before it is read the next time. Nothing is ever read that
the user has not named.
"""

from __future__ import annotations

import hashlib
import json
import os.path
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ..errors import UsageError
from .patterns import check_path_pattern, matches_name, may_allow_command, may_deny_command
from .policy import CLAIMED_KINDS, KINDS, MODES, Mode, Policy, Rule

__all__ = ["check_outside", "parse_policy", "read_policy", "read_policy_file"]

LARGEST: Final = 2**20
"""Bytes of a policy file."""

FIELDS: Final = ("action", "kind", "path", "command", "command_regex", "shell", "agent")


def read_policy(value: str | os.PathLike[str] | Mapping[str, Any] | Policy) -> Policy:
    """A policy from whatever the user may give: a mode, a path, a dict, or a policy.

    Raises:
        UsageError: it cannot be understood.
    """
    if isinstance(value, Policy):
        return value
    if isinstance(value, Mapping):
        return parse_policy(value)
    text = os.fspath(value)
    for mode in MODES:
        if text.strip().lower() == mode:
            return Policy(mode)  # type: ignore[arg-type]
    if "/" in text or "\\" in text or text.lower().endswith((".toml", ".json")):
        return read_policy_file(text)
    raise UsageError(
        f"{text!r} is no permission policy",
        remedy=f"Use one of: {', '.join(MODES)}; or name a policy file (.toml or .json).",
    )


def read_policy_file(path: str) -> Policy:
    """Read a policy file.

    Raises:
        UsageError: it is not there, is no regular file, or has a mistake; says where.
    """
    place = os.path.abspath(os.path.expanduser(path))
    try:
        if not os.path.isfile(place):
            problem = "is no regular file" if os.path.exists(place) else "is not there"
            raise UsageError(f"the policy file {place} {problem}", remedy="Check the path.")
        with open(place, "rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"the policy file {place} cannot be read: {error.strerror}") from error
    if len(data) > LARGEST:
        raise UsageError(f"the policy file {place} is larger than {LARGEST:,} bytes")
    import tomllib  # where no file is named, starting need not wait for it

    lines: Sequence[int] = ()
    try:
        text = data.decode("utf-8-sig")
        if place.lower().endswith(".json"):
            document = json.loads(text, object_pairs_hook=_no_doubles)
        else:
            document = tomllib.loads(text)
            lines = _rule_lines(text)
    except UnicodeDecodeError as error:
        raise UsageError(f"the policy file {place} is not UTF-8 text") from error
    except RecursionError as error:
        raise UsageError(f"the policy file {place} is nested too deeply") from error
    except ValueError as error:  # of JSON and of TOML; both tell line and column
        raise UsageError(
            f"the policy file {place} cannot be read: {error}",
            remedy="A file that ends in .json is read as JSON, any other one as TOML.",
        ) from error
    return parse_policy(
        document, source=place, digest=hashlib.sha256(data).hexdigest(), lines=lines
    )


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose fields stand in it once each: a second one would hide the first."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError(f"a field stands twice in an object with {', '.join(fields)}")
    return fields


def _rule_lines(text: str) -> list[int]:
    """The line of each ``[[rules]]``, for messages."""
    return [
        number
        for number, line in enumerate(text.splitlines(), 1)
        if re.match(r"\s*\[\[\s*[\"']?rules[\"']?\s*\]\]", line)
    ]


def parse_policy(
    document: object, *, source: str = "", digest: str = "", lines: Sequence[int] = ()
) -> Policy:
    """A policy from the object that a file holds.

    Args:
        document: ``{"default": mode, "rules": [rule]}``; both may be left out.
        source: see `Policy`.
        digest: likewise.
        lines: where each rule stands in the source, for messages.

    Raises:
        UsageError: with the rule and the field that is wrong.
    """
    where = f"the policy file {source}" if source else "the policy"
    if not isinstance(document, Mapping):
        raise UsageError(f"{where} is no table with default and rules")
    unknown = sorted(str(key) for key in document if key not in ("default", "rules"))
    if unknown:
        raise UsageError(
            f"{where} has an unknown field {unknown[0]!r}", remedy="Known: default, rules."
        )
    default = _mode(document.get("default", "ask"), f"{where}, default")
    rules = document.get("rules", [])
    if not isinstance(rules, Sequence) or isinstance(rules, str):
        raise UsageError(f"{where}: rules is no list", remedy="Write each one under [[rules]].")
    made = []
    for number, rule in enumerate(rules, 1):
        line = f" (line {lines[number - 1]})" if len(lines) == len(rules) else ""
        made.append(_rule(number, rule, f"{where}, rule {number}{line}"))
    return Policy(default, tuple(made), source, digest)


def _mode(value: object, where: str) -> Mode:
    for mode in MODES:
        if value == mode:
            return mode  # type: ignore[return-value]
    raise UsageError(f"{where}: {value!r} is none of {', '.join(MODES)}")


def _rule(number: int, value: object, where: str) -> Rule:
    if not isinstance(value, Mapping):
        raise UsageError(f"{where} is no table")
    for key in value:
        if key not in FIELDS:
            raise UsageError(
                f"{where}: unknown field {key!r}", remedy=f"Known: {', '.join(FIELDS)}."
            )
    if "action" not in value:
        raise UsageError(f"{where}: the field action is missing", remedy="allow, ask or deny.")
    texts: dict[str, str | None] = {}
    for key in ("kind", "path", "command", "command_regex", "agent"):
        text = value.get(key)
        if text is not None and (not isinstance(text, str) or not text):
            raise UsageError(f"{where}: {key} must be a non-empty text, not {text!r}")
        texts[key] = text
    shell = value.get("shell", False)
    if not isinstance(shell, bool):
        raise UsageError(f"{where}: shell must be true or false, not {shell!r}")
    action = _mode(value["action"], f"{where}, action")
    rule = Rule(number, action, shell=shell, **texts)
    try:
        _check(rule)
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}", remedy=error.remedy) from error
    return rule


def _check(rule: Rule) -> None:
    """Refuse what could never match, or would promise more than it holds."""
    allows = rule.action == "allow"
    kinds = KINDS if allows else (*KINDS, *CLAIMED_KINDS)
    if rule.kind is not None and rule.kind not in kinds:
        only = " in a rule that allows, since only the agent says so" if allows else ""
        raise UsageError(f"kind {rule.kind!r} is none{only}", remedy=f"Known: {', '.join(kinds)}.")
    about_command = rule.command is not None or rule.command_regex is not None
    if rule.command is not None and rule.command_regex is not None:
        raise UsageError("command and command_regex exclude each other")
    if about_command and rule.kind not in (None, "execute"):
        raise UsageError(f"a rule about a command cannot be of the kind {rule.kind!r}")
    if rule.command_regex is not None:
        try:
            re.compile(rule.command_regex)
        except re.error as error:
            raise UsageError(f"command_regex cannot be read: {error}") from error
        if allows and rule.shell:
            raise UsageError(
                "command_regex never allows lines for a shell",
                remedy="Write the line out in command; its wildcards never stand for shell syntax.",
            )
    if rule.shell and not allows:
        raise UsageError("shell is for rules that allow; others match lines for a shell anyway")
    if rule.path is not None:
        check_path_pattern(rule.path)
    if rule.agent is not None:
        matches_name(rule.agent, "")
    if about_command:
        may_allow_command(rule.command, rule.command_regex, "x")
        may_deny_command(rule.command, rule.command_regex, "x")


def check_outside(policy: Policy, roots: Sequence[str]) -> None:
    """Refuse a policy file that an agent working in these directories could rewrite.

    Args:
        policy: which may come from a file.
        roots: absolute directories.

    Raises:
        UsageError: it is within one, by its name or by where that leads to.
    """
    if not policy.source:
        return
    places = {policy.source, os.path.realpath(policy.source)}
    for root in roots:
        for folder in {os.path.abspath(root), os.path.realpath(root)}:
            if any(Path(place).is_relative_to(folder) for place in places):
                raise UsageError(
                    f"the policy file {policy.source} is within the session's folder {root}, "
                    "where the agent could rewrite it",
                    remedy="Move it elsewhere, for example into Jupyter's configuration "
                    "directory (`jupyter --config-dir`).",
                )
