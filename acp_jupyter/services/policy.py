"""What a permission policy says, and the rules for picking an option. Pure.

A policy is a default (ask, deny or allow) and rules in order, of which the first that matches
decides. A mode is a policy with nothing but a default.

Rules of matching (see also `patterns`):

- What a question is about is what the client itself sees in it (`Subject`), never what the agent
  says it is: the kind that the agent claims is only looked at by rules that deny or ask.
- A rule that allows needs certainty: all paths are within the session's roots, and match; the
  command is known, and matches as a whole; a line for a shell is only allowed by a rule that says
  so. A rule that denies or asks matches where any path, or any part of a command, does.
- Protected files are never allowed by a rule or a default: they are asked for each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, get_args

from .patterns import matches_name, may_allow_command, may_deny_command, within_path

if TYPE_CHECKING:
    from ..session.transcript import PermissionChoice, PermissionState

Mode = Literal["ask", "deny", "allow"]
MODES: Final[tuple[str, ...]] = get_args(Mode)

ALLOW: Final = ("allow_once", "allow_always")
REJECT: Final = ("reject_once", "reject_always")

KINDS: Final = ("execute", "edit", "read", "other")
"""The kinds that the client tells by itself."""

CLAIMED_KINDS: Final = ("delete", "move", "search", "think", "fetch", "switch_mode")
"""Kinds that only the agent tells of: for rules that deny or ask."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of a question.

    Attributes:
        state: "allowed", "denied" or "cancelled".
        chosen: index of the option to answer with; ``None`` to answer ``cancelled``.
        by: "user", "policy", "remembered", "nobody", "cancel" or "agent" (withdrawn).
        reason: one line, may be empty.
        rule: which rule or remembered answer decided, such as "rule 2: allow edit src/**".
    """

    state: PermissionState
    chosen: int | None
    by: str
    reason: str = ""
    rule: str = ""


CANCELLED: Final = Decision("cancelled", None, "cancel", "the turn was cancelled")


@dataclass(frozen=True, slots=True)
class Subject:
    """What a question is about, as the client sees it; made by `subject`.

    Attributes:
        agent: what the user calls the agent.
        kinds: of `KINDS`; more than one where a request holds a command and a diff.
        claimed: the kind that the agent says it is.
        command: exactly what would run, quoted for a shell, variables before it; ``None`` where
            nothing would, or where that cannot be told.
        shell: a shell reads the command, or may do so.
        paths: relative to the root that each is in, with ``/``.
        suspects: whatever may name a file, for rules that deny or ask.
        contained: all paths, and the working directory, are lexically within the roots.
        protected: why it is asked for each time; empty where it is not.
        identity: the tool and its exact arguments, as canonical JSON.
    """

    agent: str = ""
    kinds: frozenset[str] = frozenset({"other"})
    claimed: str = "other"
    command: str | None = None
    shell: bool = False
    paths: tuple[str, ...] = ()
    suspects: tuple[str, ...] = ()
    contained: bool = True
    protected: str = ""
    identity: str = ""

    @property
    def kind(self) -> str:
        """The kind that weighs most."""
        return next(kind for kind in KINDS if kind in self.kinds)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; all that it names has to match. Made by `policy_file`, which checks it.

    Attributes:
        number: its place in the policy, from 1.
        action: what happens where it matches.
        kind: of `KINDS`, or (deny, ask) of `CLAIMED_KINDS`.
        path: glob, relative to the session's roots.
        command: glob, for the whole command.
        command_regex: the same as a regular expression.
        shell: the rule may allow lines for a shell.
        agent: glob, for what the user calls the agent.
    """

    number: int
    action: Mode
    kind: str | None = None
    path: str | None = None
    command: str | None = None
    command_regex: str | None = None
    shell: bool = False
    agent: str | None = None

    def matches(self, subject: Subject) -> bool:
        if self.agent is not None and not matches_name(self.agent, subject.agent):
            return False
        return self._allows(subject) if self.action == "allow" else self._restricts(subject)

    @property
    def _about_command(self) -> bool:
        return self.command is not None or self.command_regex is not None

    def may_allow(self, kind: str) -> bool:
        """Whether a request of that kind can be allowed where the rule matches, or be asked."""
        if self.action == "allow":
            return kind in self._allowed_kinds()
        return self.action == "ask" and self.kind in (None, kind)

    def _allows(self, subject: Subject) -> bool:
        """Certain: everything that the request does is covered."""
        if not subject.contained or subject.kinds - self._allowed_kinds():
            return False
        unclear = subject.shell or subject.command is None
        if "execute" in subject.kinds and unclear and not self.shell:
            return False
        if self._about_command and not (
            subject.command is not None
            and may_allow_command(self.command, self.command_regex, subject.command)
        ):
            return False
        pattern = self.path
        return pattern is None or (
            bool(subject.paths)
            and all(within_path(pattern, path, strict=True) for path in subject.paths)
        )

    def _allowed_kinds(self) -> frozenset[str]:
        if self.kind is not None:
            return frozenset({self.kind})
        if self._about_command:
            return frozenset({"execute"})
        return frozenset({"edit", "read"} if self.path is not None else KINDS)

    def _restricts(self, subject: Subject) -> bool:
        """Generous: something that the request does is covered."""
        if self.kind is not None and self.kind not in (*subject.kinds, subject.claimed):
            return False
        if self._about_command:
            if "execute" not in subject.kinds:
                return False
            if subject.command is not None and not may_deny_command(
                self.command, self.command_regex, subject.command
            ):
                return False
        if self.path is not None:
            named = (*subject.paths, *subject.suspects)
            return any(within_path(self.path, path, strict=False) for path in named)
        return True

    @property
    def text(self) -> str:
        """The rule in one line: ``allow edit src/**``."""
        parts: list[str] = [self.action]
        if self.kind is not None:
            parts.append(self.kind)
        if self.path is not None:
            parts.append(self.path)
        if self.command is not None:
            parts.append(f"`{self.command}`")
        if self.command_regex is not None:
            parts.append(f"/{self.command_regex}/")
        if self.shell:
            parts.append("(shell)")
        if self.agent is not None:
            parts.append(f"of {self.agent}")
        return " ".join(parts) if len(parts) > 1 else f"{self.action} everything"

    def __str__(self) -> str:
        return f"rule {self.number}: {self.text}"


@dataclass(frozen=True, slots=True)
class Policy:
    """See the module.

    Attributes:
        default: what happens where no rule matches.
        rules: in order.
        source: the file it was read from; empty if none.
        digest: SHA-256 of that file, in hexadecimal.
    """

    default: Mode = "ask"
    rules: tuple[Rule, ...] = field(default=())
    source: str = ""
    digest: str = ""

    def __str__(self) -> str:
        if not self.rules and not self.source:
            return self.default
        count = f"{len(self.rules)} rule{'' if len(self.rules) == 1 else 's'}"
        where = f" of {self.source}" if self.source else ""
        return f"{count}{where}, else {self.default}"

    def find(self, subject: Subject) -> Rule | None:
        """The rule that decides; ``None`` leaves it to the default."""
        return next((rule for rule in self.rules if rule.matches(subject)), None)

    def restriction(self, subject: Subject) -> Rule | None:
        """The rule, if one decides that denies or asks."""
        rule = self.find(subject)
        return None if rule is None or rule.action == "allow" else rule

    @property
    def may_run_commands(self) -> bool:
        """Whether a command can be allowed at all."""
        return self.default != "deny" or any(rule.may_allow("execute") for rule in self.rules)


def answer_state(kind: str) -> PermissionState:
    """Whether choosing an option of that kind allows; an unknown kind is shown as a yes to what
    the agent offered, because nobody chooses it but the user."""
    return "denied" if kind in REJECT else "allowed"


def first_of(options: Sequence[PermissionChoice], kinds: Sequence[str]) -> int | None:
    """The first option of the first kind that is offered at all."""
    for kind in kinds:
        for index, option in enumerate(options):
            if option.kind == kind:
                return index
    return None


def denied(
    options: Sequence[PermissionChoice], by: str, reason: str, *, rule: str = ""
) -> Decision:
    """A no: by the agent's own reject option where it has one, else by ``cancelled``."""
    return Decision("denied", first_of(options, REJECT), by, reason, rule)
