"""What agents ask the user: read, checked, shown, and answered by somebody or by nobody."""

from __future__ import annotations

import json
import pickle
import re
import time
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import trio

from acp_jupyter.errors import Refusal
from acp_jupyter.protocol.elicitation import (
    Elicitation,
    elicitation,
    host_of,
    is_deceptive,
    response,
)
from acp_jupyter.protocol.forms import (
    Choice,
    Field,
    asks_for_secret,
    content,
    looks_secret,
    validate,
)
from acp_jupyter.questions.dialogue import dialogue
from acp_jupyter.rendering import html, text
from acp_jupyter.services.elicitation import MAX_PENDING, Answer, Elicitations
from acp_jupyter.services.permissions import CannotAsk, Permissions
from acp_jupyter.session.reducer import Reducer
from acp_jupyter.session.transcript import ElicitationEntry, NoticeEntry, Transcript
from tests.acp_schema import validate_message
from tests.conftest import trio_wait_until

GOLDEN = json.loads(
    (Path(__file__).parent / "golden" / "elicitations.json").read_text(encoding="utf-8")
)
URL = "https://login.example/device?code=1234"


def ask_form(properties, *, message="Tell me", session="s", **schema):
    requested = {"type": "object", "properties": properties, **schema}
    return {"sessionId": session, "mode": "form", "message": message, "requestedSchema": requested}


def ask_url(url=URL, ident="e-1"):
    return {
        "sessionId": "s",
        "mode": "url",
        "message": "Log in",
        "url": url,
        "elicitationId": ident,
    }


def fields_of(properties, **schema):
    return elicitation(ask_form(properties, **schema)).fields


def fill(entry_type=ElicitationEntry, /, **fields):
    entry = entry_type("e1", 1)
    for name, value in fields.items():
        setattr(entry, name, value)
    return entry


# -- reading ------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", GOLDEN, ids=[case["name"] for case in GOLDEN])
def test_a_request_is_read_as_the_golden_file_says(case):
    if "refused" in case:
        with pytest.raises(Refusal, match=re.escape(case["refused"])):
            elicitation(case["params"])
        return
    assert elicitation(case["params"]) == msgspec.convert(case["read"], Elicitation)


NO_QUESTIONS: list[Any] = [
    *(None, [], "x", 7, {"sessionId": 1}, {"sessionId": "s" * 2000}, {"requestId": []}),
    *({**ask_form({}), key: 7} for key in ("mode", "message", "requestedSchema", "sessionId")),
    *({**ask_url(), key: ["x"]} for key in ("url", "elicitationId", "message")),
    *(ask_form({"a": schema}) for schema in (None, 7, "string", {"type": 7}, {"type": None})),
    *(ask_form({"a": {"type": "array", "items": items}}) for items in (None, "x", 7)),
    ask_form({f"f{i}": {"type": "string"} for i in range(51)}),
    ask_form({"x" * 300: {"type": "string"}}),
    ask_form({"a": {"type": "string", "enum": [str(i) for i in range(501)]}}),
]


@pytest.mark.parametrize("bad", NO_QUESTIONS)
def test_f60_what_is_no_question_is_refused_with_invalid_params(bad):
    with pytest.raises(Refusal) as caught:
        elicitation(bad)
    assert caught.value.code == -32602


@pytest.mark.parametrize("key", ["minLength", "maxLength", "pattern", "format", "default", "title"])
@pytest.mark.parametrize("bad", [[], {}, "7", -1.5, True, float("nan")])
def test_a_constraint_of_a_wrong_type_breaks_nothing(key, bad):
    fields = fields_of({"a": {"type": "string", key: bad}})
    validate(fields, {"a": "some text"})
    html.render(fill(fields=fields), terminals={})


# -- what a form takes (C53, C55) -----------------------------------------------------------------

CHECKS = [
    ({"type": "string"}, ["", "x"], []),
    ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "äöü"], ["a", "abcd"]),
    ({"type": "string", "pattern": "^[a-z]+$"}, ["abc"], ["ABC", "a1"]),
    ({"type": "string", "format": "email"}, ["a@b.example"], ["a", "a@", "@b", "a b@c"]),
    ({"type": "string", "format": "uri"}, ["https://x.example/?y"], ["x.example", "a b:c"]),
    ({"type": "string", "format": "date"}, ["2026-02-28"], ["2026-02-30", "28.2.2026", "20260228"]),
    (
        {"type": "string", "format": "date-time"},
        ["2026-02-28T12:00:00Z", "2026-02-28T12:00:00+01:00"],
        ["2026-02-28", "2026-02-28T12:00:00", "noon"],
    ),
    ({"type": "integer", "minimum": 1, "maximum": 9}, ["1", "9", " 5 "], ["0", "10", "1.5", "x"]),
    ({"type": "integer"}, ["-9223372036854775808"], ["9223372036854775808", "1e3", "٣"]),
    ({"type": "number", "minimum": 0.5}, ["0.5", "1", "1e3"], ["0.4", "nan", "inf", "1.2.3"]),
    ({"type": "boolean"}, [True, False], ["yes", 1]),
    ({"type": "string", "enum": ["a", "b"]}, ["a"], ["c"]),
    ({"type": "string", "oneOf": [{"const": "a", "title": "A"}]}, ["a"], ["A"]),
    (
        {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}, "maxItems": 2},
        [[], ["a"], ["a", "c"]],
        [["a", "b", "c"], ["d"], "a"],
    ),
    (
        {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}, "minItems": 1},
        [["a"]],
        [["A"]],
    ),
]


@pytest.mark.obligation("C53", "C55")
@pytest.mark.parametrize(("schema", "good", "bad"), CHECKS)
def test_c53_c55_values_are_checked_and_the_answer_conforms_to_the_schema(schema, good, bad):
    fields = fields_of({"a": schema})
    for value in bad:
        assert validate(fields, {"a": value}).keys() == {"a"}, value
    for value in good:
        assert validate(fields, {"a": value}) == {}, value
        answer = content(fields, {"a": value})
        jsonschema.validate(answer, {"type": "object", "properties": {"a": schema}})
        message = {"jsonrpc": "2.0", "id": 1, "result": response("accept", answer)}
        for version in (1, 2):
            validate_message("to_agent", message, version, method_of_response="elicitation/create")


@pytest.mark.parametrize("schema", [check[0] for check in CHECKS])
def test_a_value_is_needed_only_where_the_form_says_so(schema):
    needed = fields_of({"a": schema}, required=["a"])
    free = fields_of({"a": schema})
    empty: list[str] | None = [] if schema["type"] == "array" else None
    if schema["type"] != "array" or schema.get("minItems"):
        assert validate(needed, {"a": empty}).keys() == {"a"}
    assert validate(free, {"a": empty}) == {}
    assert content(free, {"a": empty}) == {}


@pytest.mark.obligation("C55")
def test_c55_numbers_are_numbers_and_large_integers_are_exact():
    fields = fields_of({"a": {"type": "integer"}, "b": {"type": "number"}})
    assert content(fields, {"a": "9007199254740993", "b": "2"}) == {"a": 9007199254740993, "b": 2}


@pytest.mark.obligation("C62")
def test_c62_a_field_of_an_unknown_type_is_never_answered():
    fields = fields_of({"a": {"type": "_colour"}, "b": {"type": "string"}})
    assert validate(fields, {"a": "red", "b": "x"}) == {}
    assert content(fields, {"a": "red", "b": "x"}) == {"b": "x"}


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "(a|a)*$",
        "(a|aa)+$",
        "^(([a-z])+.)+[A-Z]([a-z])+$",
        "(.*a){20}",
        "a?" * 30 + "a" * 30,
        "(x+x+)+y",
        r"(a*)*\1",
        "(?x)(a+) +$",
        "(?#)(a+)(?#)+$",
        "a*" * 12 + "b",
        "(a|b|ab)" * 20 + "$",
        "(" * 500,
        "a{1,9999}" * 3 + "b",
        "[",
    ],
)
def test_f60_a_pattern_made_to_take_for_ever_is_not_tried(pattern):
    fields = fields_of({"a": {"type": "string", "pattern": pattern}})
    started = time.monotonic()
    for length in (10, 29, 60, 300, 4000):
        validate(fields, {"a": "a" * length + "!"})
    assert time.monotonic() - started < 5.0


# -- secrets (F50) --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        "password",
        "Password",
        "userPassword",
        "user_password",
        "PASSWORD",
        "pass\u200bword",
        "api_key",
        "apiKey",
        "Your API key",
        "access token",
        "token",
        "github_token",
        "secret",
        "client_secret",
        "Passphrase",
        "pin",
        "private key",
        "\uff50\uff41\uff53\uff53word",
        "one-time code",
    ],
)
def test_f50_a_form_that_asks_for_a_secret_is_declined(words):
    for named in ({"title": words}, {"description": f"Type your {words}"}):
        properties = {"a": {"type": "string", **named}}
        if "description" in named and words == "token":
            continue  # said of many things that are none; as a name it is one
        assert "password" in elicitation(ask_form(properties)).problem, named
    assert "password" in elicitation(ask_form({words: {"type": "string"}})).problem
    assert asks_for_secret(Field("a", "integer", "PIN code"))


@pytest.mark.parametrize(
    "words",
    ["max_tokens", "tokens", "max token", "passenger", "keyword", "spinning", "pin to version"],
)
def test_words_that_only_look_like_it_are_no_secret(words):
    assert elicitation(ask_form({words: {"type": "string"}})).problem == ""


def test_f50_the_message_counts_where_the_only_field_says_nothing():
    one = {"value": {"type": "string"}}
    assert elicitation(ask_form(one, message="Enter your password")).problem
    choice = {"value": {"type": "string", "enum": ["reset the password", "leave it"]}}
    assert not elicitation(ask_form(choice, message="What about the password?")).problem


@pytest.mark.parametrize(
    ("value", "secret"),
    [("sk-abcdefghijklmnop1234", True), ("ghp_0123456789abcdefABCD", True), ("sketch", False)],
)
def test_a_value_that_looks_like_a_key_is_not_shown(value, secret):
    assert looks_secret(value) is secret
    fields = [Field("a", "text", "Note")]
    entry = fill(fields=fields, state="accepted", answers={"a": value}, decided_by="user")
    for shown in (html.render(entry, terminals={}), text.render(entry, terminals={})):
        assert (value in shown) is not secret


# -- web addresses (C51, C58, C60, C61) -----------------------------------------------------------


@pytest.mark.obligation("C51")
@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://a.example/x?y#z", "a.example"),
        ("HTTP://A.example:8080", "a.example:8080"),
        ("http://[::1]/", "::1"),
        ("https://user:pass@a.example/", ""),
        ("https://good.example@evil.example/", ""),
        ("javascript:alert(1)", ""),
        ("file:///etc/passwd", ""),
        ("//a.example/", ""),
        ("https://", ""),
        ("https://a.example/\u202egpj", ""),
        ("https://a.example/ x", ""),
        ("https://a.example\\@b.example/", ""),
        ("https://a.example:port/", ""),
        ("https://[a.example/", ""),
    ],
)
def test_c51_only_a_plain_web_address_has_a_host_to_show(url, host):
    assert host_of(url) == host


@pytest.mark.obligation("C60")
@pytest.mark.parametrize(
    ("host", "deceptive"),
    [
        ("xn--pple-43d.example", True),
        ("a.xn--p1ai", True),
        ("\u0430pple.example", True),
        ("apple.example", False),
        ("xn.example:80", False),
    ],
)
def test_c60_punycode_and_foreign_letters_are_warned_of(host, deceptive):
    assert is_deceptive(host) is deceptive
    entry = fill(mode="url", url=f"https://{host}/", agent="demo")
    for shown in (html.render(entry, terminals={}), text.render(entry, terminals={})):
        assert ("may look like" in shown) is deceptive


@pytest.mark.obligation("C51", "C58", "C59")
def test_f50_c58_an_address_is_shown_in_full_and_is_no_link_before_consent():
    url = f"https://login.example/{'x' * 600}/end"
    entry = fill(mode="url", url=url, agent="demo", message=f"See {URL} for more")
    shown = html.render(entry, terminals={})
    assert "<a " not in shown
    assert f"<code>{url}</code>" in shown
    assert "Host: <b>login.example</b>" in shown
    assert url in text.render(entry, terminals={})
    entry.state, entry.decided_by = "accepted", "user"
    shown = html.render(entry, terminals={})
    assert re.findall(r'<a href="([^"]*)"', shown) == [url]
    assert 'rel="noopener noreferrer" target="_blank"' in shown
    for state in ("completed", "declined", "cancelled"):
        entry.state = state
        assert "<a " not in html.render(entry, terminals={})


@pytest.mark.obligation("C49", "C52", "C61")
def test_c49_c61_the_agent_is_named_and_its_words_are_no_links_and_no_markup():
    words = f"**bold** [x]({URL}) {URL}\nsecond line"
    field = Field("a", "choice", words, description=words, choices=(Choice("v", words, words),))
    entry = fill(agent="demo", message=words, title=words, description=words, fields=[field])
    shown = html.render(entry, terminals={})
    assert "<b>demo</b> asks you" in shown
    assert "<a " not in shown
    assert "**bold**" in unescape(shown)
    assert "demo asks you" in text.render(entry, terminals={})


def test_a_choice_shows_its_value_beside_a_title_that_says_something_else():
    field = Field("a", "choice", "Which", choices=(Choice("prod", "Just a test"), Choice("b", "b")))
    for shown in (
        html.render(fill(fields=[field]), terminals={}),
        text.render(fill(fields=[field]), terminals={}),
    ):
        assert "Just a test [prod]" in shown
        assert "[b]" not in shown


# -- line by line ---------------------------------------------------------------------------------

PROPERTIES = {
    "name": {"type": "string", "minLength": 2},
    "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}], "default": "s"},
    "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}},
    "count": {"type": "integer"},
    "dry": {"type": "boolean", "default": True},
}


def talk(entry, *replies):
    """The prompts and the answer of a dialogue."""
    going = dialogue(entry)
    prompts = [next(going)]
    for number, reply in enumerate(replies, 1):
        try:
            prompts.append(going.send(reply))
        except StopIteration as end:
            assert number == len(replies), "it ended before the last reply"
            return prompts, end.value
    raise AssertionError(f"it goes on: {prompts[-1]}")


def form_entry(properties=PROPERTIES, **schema):
    request = elicitation(ask_form(properties, **schema))
    return fill(agent="demo", message=request.message, fields=request.fields)


@pytest.mark.obligation("C50", "C52")
def test_a_form_is_filled_in_line_by_line_and_shown_before_it_is_sent():
    prompts, answer = talk(form_entry(required=["name"]), "Ada", "", "1, c", "7", "no", "")
    assert answer == Answer(
        "accept", content={"name": "Ada", "size": "s", "tags": ["a", "c"], "count": 7, "dry": False}
    )
    assert "demo asks you" in prompts[0]
    assert "[Small [s]]" in prompts[1], "a default is kept by an empty line"
    for shown in ("name *: Ada", "size: Small", "tags: a, c", "count: 7", "dry: no"):
        assert shown in prompts[-1]


def test_what_is_optional_may_be_left_empty_and_a_default_skipped():
    entry = form_entry(required=["name"])
    _, answer = talk(entry, "Ada", "/skip", "", "", "/skip", "yes")
    assert answer == Answer("accept", content={"name": "Ada"})


def test_a_wrong_value_is_asked_again_with_the_problem_and_ends_after_three():
    prompts, answer = talk(form_entry(required=["name"]), "A", "/skip", "")
    assert prompts[1].startswith("It must have at least 2 characters.")
    assert prompts[2].startswith("A value is needed.")
    assert answer.action == "cancel"


@pytest.mark.obligation("C50")
def test_c50_a_form_can_be_changed_after_the_review():
    entry = form_entry({"name": {"type": "string"}})
    _, answer = talk(entry, "Ada", "/edit", "", "/edit", "Bob", "y")
    assert answer == Answer("accept", content={"name": "Bob"})


@pytest.mark.obligation("C49")
@pytest.mark.parametrize(("reply", "action"), [("/decline", "decline"), ("/cancel", "cancel")])
def test_c49_a_form_can_be_declined_and_cancelled_at_any_time(reply, action):
    for before in ([], ["Ada"], ["Ada", "", "", "", ""]):
        _, answer = talk(form_entry(), *before, reply)
        assert (answer.action, answer.content) == (action, {})


@pytest.mark.obligation("C58")
@pytest.mark.parametrize(
    ("replies", "action"),
    [(["1"], "accept"), (["maybe", "2"], "decline"), (["3"], "cancel"), (["x"] * 3, "cancel")],
)
def test_c58_a_web_address_needs_a_plain_yes(replies, action):
    entry = fill(mode="url", url=URL, agent="demo", message="Log in")
    prompts, answer = talk(entry, *replies)
    assert URL in prompts[0]
    assert "host login.example" in prompts[0]
    assert answer.action == action


# -- the service ----------------------------------------------------------------------------------


class Person:
    """Answers what it is asked, when told to."""

    def __init__(self, *answers, unreachable=""):
        self.answers = list(answers)
        self.unreachable = unreachable
        self.asked = []
        self.may_answer = trio.Event()

    async def ask(self, entry):
        raise AssertionError("no permission is asked for here")

    async def elicit(self, entry):
        self.asked.append(entry)
        if self.unreachable:
            raise CannotAsk(self.unreachable)
        await self.may_answer.wait()
        return self.answers.pop(0)


class Bench:
    """The service of a session with a running turn."""

    def __init__(self, *askers, mode="ask", running=True):
        self.permissions = Permissions(mode)
        self.permissions.askers = askers
        self.transcript = Transcript()
        self.reducer = Reducer(self.transcript)
        self.changes = 0
        self.service = Elicitations(
            self.permissions, self.reducer, agent="demo", on_change=self._on_change
        )
        if running:
            self.reducer.start_turn([], trio.current_time())

    def _on_change(self):
        self.changes += 1

    @property
    def entries(self):
        return [e for e in self.transcript.entries() if isinstance(e, ElicitationEntry)]


async def test_what_the_user_filled_in_is_sent_and_written_down():
    person = Person(Answer("accept", content={"a": "x"}))
    person.may_answer.set()
    bench = Bench(person)
    result = await bench.service.create(ask_form({"a": {"type": "string"}}))
    assert result == {"action": "accept", "content": {"a": "x"}}
    (entry,) = bench.entries
    assert (entry.state, entry.answers, entry.decided_by) == ("accepted", {"a": "x"}, "user")
    assert entry.agent == "demo"
    assert bench.changes == 2


@pytest.mark.obligation("C49")
@pytest.mark.parametrize(("action", "state"), [("decline", "declined"), ("cancel", "cancelled")])
async def test_c49_a_no_of_the_user_is_passed_on_without_content(action, state):
    person = Person(Answer(action))
    person.may_answer.set()
    bench = Bench(person)
    assert await bench.service.create(ask_form({})) == {"action": action}
    assert bench.entries[0].state == state


async def test_where_nobody_can_answer_it_is_cancelled_at_once_and_says_why():
    bench = Bench(Person(unreachable="the frontend shows no widgets"))
    assert await bench.service.create(ask_form({})) == {"action": "cancel"}
    assert "the frontend shows no widgets" in bench.entries[0].reason
    bench = Bench()
    assert await bench.service.create(ask_url()) == {"action": "cancel"}
    assert "nobody can answer" in text.render(bench.entries[0], terminals={})


async def test_the_next_way_of_asking_is_tried_where_one_reaches_nobody():
    second = Person(Answer("accept"))
    second.may_answer.set()
    bench = Bench(Person(unreachable="no widgets"), second)
    assert await bench.service.create(ask_url()) == {"action": "accept"}


@pytest.mark.parametrize("mode", ["deny", "allow"])
async def test_a_policy_can_decline_but_never_answers_for_the_user(mode):
    bench = Bench(mode=mode)
    result = await bench.service.create(ask_form({"a": {"type": "string", "default": "x"}}))
    assert result == {"action": "decline" if mode == "deny" else "cancel"}
    assert bench.entries[0].decided_by == ("policy" if mode == "deny" else "nobody")


@pytest.mark.parametrize(
    "params",
    [
        ask_form({"password": {"type": "string"}}),
        ask_form({"a": {"type": "_x"}}, required=["a"]),
        ask_url("javascript:alert(1)"),
    ],
)
async def test_f50_what_must_not_be_asked_is_declined_unseen_with_the_reason(params):
    person = Person()
    bench = Bench(person)
    assert await bench.service.create(params) == {"action": "decline"}
    assert person.asked == []
    (entry,) = bench.entries
    assert entry.decided_by == "client"
    assert entry.reason in unescape(html.render(entry, terminals={}))


@pytest.mark.obligation("C62")
async def test_c62_an_unknown_mode_is_refused_with_a_notice_and_never_shown_as_a_form():
    bench = Bench(Person())
    with pytest.raises(Refusal) as caught:
        await bench.service.create({**ask_form({}), "mode": "_voice"})
    assert caught.value.code == -32602
    assert bench.entries == []
    notices = [e for e in bench.transcript.entries() if isinstance(e, NoticeEntry)]
    assert "'_voice'" in notices[0].text


async def test_outside_of_a_turn_nobody_is_asked():
    person = Person()
    bench = Bench(person, running=False)
    assert await bench.service.create(ask_form({})) == {"action": "cancel"}
    assert person.asked == []


async def test_a_cancelled_turn_cancels_what_is_open_and_what_comes_after():
    bench = Bench(Person())
    results = []

    async def create(params):
        results.append(await bench.service.create(params))

    async with trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(create, ask_url(ident=f"e-{number}"))
        await trio_wait_until(lambda: len(bench.service.pending) == 3)
        bench.transcript.turn.cancel_requested = True
        bench.service.cancel()
    assert results == [{"action": "cancel"}] * 3
    assert await bench.service.create(ask_form({})) == {"action": "cancel"}
    assert {entry.decided_by for entry in bench.entries} == {"cancel"}


async def test_a_withdrawn_request_closes_its_question():
    bench = Bench(Person())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.service.create, ask_form({}))
        await trio_wait_until(lambda: bench.service.pending)
        nursery.cancel_scope.cancel()
    assert bench.entries[0].state == "cancelled"
    assert "Withdrawn by the agent" in text.render(bench.entries[0], terminals={})
    assert bench.service.pending == []


async def test_f50_one_question_is_open_at_a_time_and_a_flood_is_cut():
    person = Person(*[Answer("decline")] * MAX_PENDING)
    bench = Bench(person)
    results = []

    async def create():
        results.append(await bench.service.create(ask_form({})))

    async with trio.open_nursery() as nursery:
        for _ in range(MAX_PENDING + 15):
            nursery.start_soon(create)
        await trio_wait_until(lambda: len(results) == 15 and person.asked)
        assert results == [{"action": "cancel"}] * 15
        assert len(person.asked) == 1
        person.may_answer.set()
    assert results[15:] == [{"action": "decline"}] * MAX_PENDING


# -- completion (C56, C57) ------------------------------------------------------------------------


async def accepted_visit(ident="e-1"):
    person = Person(Answer("accept"))
    person.may_answer.set()
    bench = Bench(person)
    assert await bench.service.create(ask_url(ident=ident)) == {"action": "accept"}
    assert bench.entries[0].state == "accepted"
    return bench


@pytest.mark.obligation("C56")
@pytest.mark.parametrize("ident", ["e-1", " ", "../../etc", "<script>", "ä\u202e"])
async def test_c56_a_completed_visit_closes_its_link(ident):
    bench = await accepted_visit(ident)
    bench.service.completed({"elicitationId": ident})
    assert bench.entries[0].state == "completed"
    assert "<a " not in html.render(bench.entries[0], terminals={})


@pytest.mark.obligation("C57")
@pytest.mark.parametrize(
    "params", [None, [], {}, {"elicitationId": "other"}, {"elicitationId": ["e-1"]}]
)
async def test_c57_unknown_ids_are_ignored(params):
    bench = await accepted_visit()
    revision = bench.entries[0].revision
    bench.service.completed(params)
    assert (bench.entries[0].state, bench.entries[0].revision) == ("accepted", revision)


@pytest.mark.obligation("C57")
async def test_c57_a_second_completion_and_one_of_a_declined_visit_are_ignored():
    bench = await accepted_visit()
    bench.service.completed({"elicitationId": "e-1"})
    revision = bench.entries[0].revision
    bench.service.completed({"elicitationId": "e-1"})
    assert bench.entries[0].revision == revision
    bench = Bench(mode="deny")
    await bench.service.create(ask_url())
    bench.service.completed({"elicitationId": "e-1"})
    assert bench.entries[0].state == "declined"


async def test_a_completion_before_the_answer_closes_the_question():
    bench = Bench(Person())
    results = []

    async def create():
        results.append(await bench.service.create(ask_url()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(create)
        await trio_wait_until(lambda: bench.service.pending)
        bench.service.completed({"elicitationId": "e-1"})
    assert results == [{"action": "cancel"}]
    assert "the agent says that it is done with" in bench.entries[0].reason


@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
@pytest.mark.parametrize("version", [1, 2])
def test_every_answer_is_what_the_official_schema_allows(action, version):
    check = partial(
        validate_message, "to_agent", version=version, method_of_response="elicitation/create"
    )
    check({"jsonrpc": "2.0", "id": 1, "result": response(action)})
    check({"jsonrpc": "2.0", "id": 1, "result": response("accept", {"a": ["x"], "b": 1.5})})


def test_a_question_survives_pickling_with_its_fields_and_answers():
    entry = form_entry(required=["name"])
    entry.state, entry.answers = "accepted", {"name": "Ada"}
    again = pickle.loads(pickle.dumps(entry))
    assert again.fields == entry.fields
    assert html.render(again, terminals={}) == html.render(entry, terminals={})
