"""Remembered answers: exactly what was asked, in this session, and revocable."""

from __future__ import annotations

from typing import Any

import pytest

from acp_jupyter.errors import UsageError
from acp_jupyter.services.policy import Subject
from acp_jupyter.services.remembered import ANSWERS, Remembered, agent_digest
from acp_jupyter.session.transcript import PermissionChoice
from tests.test_policy import CWD, requested, started

ONCE = PermissionChoice("once", "Allow", "allow_once")
ALWAYS = PermissionChoice("always", "Always", "allow_always")
EVERYWHERE = PermissionChoice("everywhere", "Always, everywhere", "allow_always")
NO = PermissionChoice("no", "No", "reject_once")
NEVER = PermissionChoice("never", "Never", "reject_always")
OPTIONS = [ONCE, ALWAYS, EVERYWHERE, NO, NEVER]


def remembered(session: str = "s1", argv: tuple[str, ...] = ("agent",)) -> Remembered:
    return Remembered(agent_digest(argv), session)


LIST = requested({"command": ["ls", "-l"]}, title="List")


def test_the_same_request_is_answered_without_asking() -> None:
    memory = remembered()
    assert memory.decide(LIST, OPTIONS) is None
    memory.remember(LIST, ALWAYS)
    decision = memory.decide(LIST, OPTIONS)
    assert decision is not None
    assert (decision.state, decision.by, decision.rule) == ("allowed", "remembered", "answer 1")
    assert OPTIONS[decision.chosen or 0] is ALWAYS


def test_a_no_is_remembered_too() -> None:
    memory = remembered()
    memory.remember(LIST, NEVER)
    decision = memory.decide(LIST, OPTIONS)
    assert decision is not None
    assert (decision.state, decision.chosen) == ("denied", OPTIONS.index(NEVER))
    bare = memory.decide(LIST, [ALWAYS])
    assert bare is not None
    assert (bare.state, bare.chosen) == ("denied", None)


@pytest.mark.parametrize("option", [ONCE, NO, PermissionChoice("x", "Always allow", "unknown")])
def test_f43_only_an_always_by_its_kind_is_remembered(option: PermissionChoice) -> None:
    memory = remembered()
    assert memory.remember(LIST, option) is None
    assert memory.answers == []


EDIT = {"path": f"{CWD}/a.py", "old": "x", "new": "y"}


@pytest.mark.parametrize(
    ("asked", "other"),
    [
        (LIST, requested({"command": ["ls", "-la"]})),
        (LIST, requested({"command": "ls -l; rm x"})),
        (LIST, requested({"command": ["ls -l"]})),
        (LIST, requested({"command": ["ls", "-l"], "cwd": f"{CWD}/sub"})),
        (LIST, requested({"command": ["ls", "-l"], "timeout": 5})),
        (LIST, requested({"command": ["ls", "-l"]}, diffs=(f"{CWD}/a",))),
        (LIST, started("ls", "-l", LANG="C")),
        (LIST, started("ls", "-l", cwd=f"{CWD}/sub")),
        (requested(EDIT), requested({**EDIT, "new": "z"})),
        (requested(EDIT), requested({**EDIT, "more": None})),
        (requested(EDIT), requested(EDIT, kind="delete")),
        (requested(EDIT), requested(EDIT, title="Another title")),
        (requested(EDIT), requested(EDIT, locations=(f"{CWD}/b.py",))),
        (requested({"n": 1}), requested({"n": True})),
        (requested({"n": 1}), requested({"n": "1"})),
        (requested({"n": 1}), requested({"n": 1.0})),
        (requested(None), requested({})),
        (requested(diffs=(f"{CWD}/a",)), requested(diffs=(f"{CWD}/b",))),
        (requested(title="May I?"), requested(title="May I")),
    ],
)
def test_f49_anything_else_in_the_request_is_asked(asked: Subject, other: Subject) -> None:
    memory = remembered()
    memory.remember(asked, ALWAYS)
    assert memory.decide(asked, OPTIONS) is not None
    assert memory.decide(other, OPTIONS) is None


def test_f49_a_diffs_text_is_part_of_what_was_asked() -> None:
    memory = remembered()
    asked = requested(diffs=(f"{CWD}/a.py",))
    memory.remember(asked, ALWAYS)
    again = requested(diffs=(f"{CWD}/a.py",))
    assert memory.decide(again, OPTIONS) is not None
    from acp_jupyter.services.roots import Roots
    from acp_jupyter.services.subject import of_permission
    from acp_jupyter.session.transcript import PermissionEntry, ToolCallEntry

    call = ToolCallEntry("e1", 1, title="A title", kind="other")
    call.content = [{"type": "diff", "path": f"{CWD}/a.py", "oldText": "a", "newText": "other"}]
    entry = PermissionEntry("e2", 1, tool_call=call, title="A title", kind="other")
    other = of_permission(entry, agent="demo", cwd=CWD, roots=Roots([CWD]))
    assert memory.decide(other, OPTIONS) is None


def test_a_command_is_the_same_whether_agent_or_client_asks_about_it() -> None:
    memory = remembered()
    memory.remember(requested({"command": "ls", "args": ["-l"], "cwd": CWD}), ALWAYS)
    assert memory.decide(started("ls", "-l"), OPTIONS) is not None


@pytest.mark.parametrize("other", [("s2", ("agent",)), ("s1", ("agent", "--x")), ("s1", ("a",))])
def test_f49_another_session_or_agent_is_asked(other: tuple[str, tuple[str, ...]]) -> None:
    first, second = remembered(), remembered(*other)
    first.remember(LIST, ALWAYS)
    second._answers = first._answers  # even if they shared one memory
    assert second.decide(LIST, OPTIONS) is None
    assert first.decide(LIST, OPTIONS) is not None


def test_f33_a_protected_file_is_neither_remembered_nor_answered() -> None:
    memory = remembered()
    secret = requested(diffs=(f"{CWD}/.env",))
    assert memory.remember(secret, ALWAYS) is None
    assert memory.decide(secret, OPTIONS) is None


def test_of_two_options_that_allow_always_the_one_chosen_is_given_again() -> None:
    memory = remembered()
    memory.remember(LIST, EVERYWHERE)
    decision = memory.decide(LIST, OPTIONS)
    assert decision is not None
    assert OPTIONS[decision.chosen or 0] is EVERYWHERE


def test_an_option_id_that_changed_its_kind_is_not_taken_for_the_one_chosen() -> None:
    memory = remembered()
    memory.remember(LIST, ALWAYS)
    swapped = [
        PermissionChoice("always", "Always", "reject_always"),
        PermissionChoice("no", "No", "allow_once"),
    ]
    decision = memory.decide(LIST, swapped)
    assert decision is not None
    assert (decision.state, decision.chosen) == ("allowed", 1)
    assert memory.decide(LIST, [NO]) is None, "nothing to allow it with: asked"


def test_answers_are_listed_and_revoked_by_their_number() -> None:
    memory = remembered()
    memory.remember(LIST, ALWAYS)
    memory.remember(requested({"command": "pwd"}), NEVER)
    assert [(a.number, a.verb) for a in memory.answers] == [(1, "always allow"), (2, "always deny")]
    assert memory.revoke(1).subject is LIST
    assert memory.decide(LIST, OPTIONS) is None
    with pytest.raises(UsageError, match="no remembered answer 1"):
        memory.revoke(1)
    assert memory.remember(LIST, ALWAYS) is not None
    assert [a.number for a in memory.answers] == [2, 3]
    assert memory.revoke_all() == 2
    assert memory.answers == []


def test_the_last_answer_holds() -> None:
    memory = remembered()
    memory.remember(LIST, ALWAYS)
    memory.remember(LIST, NEVER)
    decision = memory.decide(LIST, OPTIONS)
    assert decision is not None
    assert decision.state == "denied"
    assert len(memory.answers) == 1


def test_answers_are_bounded_and_the_oldest_goes_first() -> None:
    memory = remembered()
    subjects: list[Any] = [requested({"command": f"echo {n}"}) for n in range(ANSWERS + 1)]
    for subject in subjects:
        memory.remember(subject, ALWAYS)
    assert len(memory.answers) == ANSWERS
    assert memory.decide(subjects[0], OPTIONS) is None
    assert memory.decide(subjects[-1], OPTIONS) is not None
