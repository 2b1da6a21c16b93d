"""Questions of the agent to the user in the running kernel: by widgets, line by line, by nobody."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.bench.kernels import PLAIN
from tests.kernel_client import KernelUnderTest
from tests.live_kernel import Cell, LiveKernel, as_server, live_kernel

VIEW = "application/vnd.jupyter.widget-view+json"
SHORT = 10.0


# -- by widgets, as a frontend of a Jupyter server shows them -------------------------------------


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    home = tmp_path_factory.mktemp("served")
    with live_kernel(home, **as_server(home)) as running:
        yield running


class Page:
    """What a frontend does with the widgets of one cell.

    Args:
        subshell: where it sends their messages; the main shell without one.
    """

    def __init__(self, kernel: LiveKernel, cell: Cell, subshell: str | None = None) -> None:
        self.kernel = kernel
        self.cell = cell
        self.header = {} if subshell is None else {"subshell_id": subshell}

    @property
    def models(self) -> dict[str, dict[str, Any]]:
        """State by comm, of the widgets that are there."""
        closed = {content["comm_id"] for content in self.cell.contents("comm_close")}
        models = {c["comm_id"]: dict(c["data"]["state"]) for c in self.cell.contents("comm_open")}
        for content in self.cell.contents("comm_msg"):
            if content["comm_id"] in models and "state" in content["data"]:
                models[content["comm_id"]].update(content["data"]["state"])
        return {ident: state for ident, state in models.items() if ident not in closed}

    def find(self, name: str, number: int = 0, **state: Any) -> str:
        found = [
            ident
            for ident, model in self.models.items()
            if model["_model_name"] == name and all(model.get(k) == v for k, v in state.items())
        ]
        return found[number] if len(found) > number else ""

    def send(self, comm: str, data: dict[str, Any]) -> None:
        assert comm, "no such widget"
        content = {"comm_id": comm, "data": data}
        self.kernel.send("shell", "comm_msg", content, header=self.header)

    def set(self, comm: str, **state: Any) -> None:
        self.send(comm, {"method": "update", "state": state, "buffer_paths": []})

    def show(self) -> None:
        """The widgets are there, and the frontend's counter begins to count."""
        self.kernel.read(lambda: self.find("PlayModel") and self.view)
        self.set(self.find("PlayModel"), value=1)

    @property
    def view(self) -> str:
        shown = [data[VIEW]["model_id"] for data in self.cell.outputs if VIEW in data]
        return shown[-1] if shown else ""

    def click(self, label: str) -> None:
        self.send(
            self.find("ButtonModel", description=label),
            {"method": "custom", "content": {"event": "click"}},
        )

    @property
    def words(self) -> str:
        """All that the widgets say, as text."""
        models = self.models.values()
        source = "\n".join(
            model["value"] for model in models if model["_model_name"] == "HTMLModel"
        )
        return re.sub(r"<[^>]+>", "", source)


def ask(kernel: LiveKernel, made: Any) -> Page:
    kernel.run(f"%acp connect -- {' '.join(made.argv)}").expect_ok()
    page = Page(kernel, kernel.start("go"))
    page.show()
    return page


def every_type(agent):
    agent.ask(
        "elicitation/create",
        mode="form",
        message="How shall I deploy?",
        requestedSchema={
            "type": "object",
            "properties": {
                "host": {"type": "string", "title": "Host", "minLength": 2, "default": "staging"},
                "count": {"type": "integer", "title": "Count", "minimum": 1, "maximum": 9},
                "ratio": {"type": "number", "default": 0.5},
                "dry": {"type": "boolean", "title": "Dry run", "default": True},
                "size": {
                    "type": "string",
                    "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}],
                },
                "tags": {
                    "type": "array",
                    "items": {"type": "string", "enum": ["a", "b", "c"]},
                    "maxItems": 2,
                    "default": ["a"],
                },
            },
            "required": ["host", "count"],
        },
    )
    agent.text("went on")


def answers(made: Any, method: str = "elicitation/create") -> list[Any]:
    return [note.get("result", note.get("error")) for note in made.notes(method)]


@pytest.mark.obligation("C53", "C54")
def test_c53_c54_a_form_has_defaults_and_says_what_is_wrong_before_anything_is_sent(served, script):
    made = script(prompt=every_type)
    page = ask(served, made)
    assert "scripted_agent.py asks you:" in page.words
    assert "How shall I deploy?" in page.words
    host, count, ratio = (page.find("TextModel", number) for number in range(3))
    assert [page.models[ident]["value"] for ident in (host, count, ratio)] == ["staging", "", "0.5"]
    assert page.models[page.find("CheckboxModel")]["value"] is True
    page.set(host, value="x")
    page.click("Submit")
    served.read(lambda: "A value is needed." in page.words)
    assert "It must have at least 2 characters." in page.words
    assert made.notes("elicitation/create") == []
    page.set(host, value="live")
    page.set(count, value="12")
    page.click("Submit")
    served.read(lambda: "It must be at most 9." in page.words)
    assert "It must have" not in page.words, "what was put right is no longer complained of"
    page.set(count, value="3")
    page.set(ratio, value="")
    page.set(page.find("CheckboxModel"), value=False)
    page.set(page.find("DropdownModel"), index=2)
    page.set(page.find("SelectMultipleModel"), index=[0, 2])
    page.click("Submit")
    cell = served.finish(page.cell).expect_ok()
    expected = {"host": "live", "count": 3, "dry": False, "size": "l", "tags": ["a", "c"]}
    assert answers(made) == [{"action": "accept", "content": expected}]
    assert "Answered by you" in cell.text
    assert "size: Large [l]" in cell.text
    assert "went on" in cell.text
    assert not any(VIEW in data for data in cell.outputs), "what is saved has no dead widget"
    assert page.models == {}


@pytest.mark.obligation("C54")
def test_untouched_defaults_are_sent_as_they_are(served, script):
    def prompt(agent):
        properties = {
            "name": {"type": "string", "default": "Ada"},
            "count": {"type": "integer", "default": 7},
            "size": {"type": "string", "enum": ["s", "l"], "default": "l"},
            "empty": {"type": "string"},
        }
        schema = {"properties": properties}
        agent.ask("elicitation/create", mode="form", message="Which?", requestedSchema=schema)

    made = script(prompt=prompt)
    page = ask(served, made)
    page.click("Submit")
    served.finish(page.cell).expect_ok()
    content = {"name": "Ada", "count": 7, "size": "l"}
    assert answers(made) == [{"action": "accept", "content": content}]


@pytest.mark.obligation("C49")
@pytest.mark.parametrize(("label", "action"), [("Decline", "decline"), ("Cancel", "cancel")])
def test_c49_a_form_can_be_declined_and_cancelled(served, script, label, action):
    made = script(prompt=every_type)
    page = ask(served, made)
    page.set(page.find("TextModel"), value="never sent")
    page.click(label)
    cell = served.finish(page.cell).expect_ok()
    assert answers(made) == [{"action": action}]
    assert "never sent" not in json.dumps([*made.received(), *cell.outputs])


def test_f20_an_interrupt_closes_the_form_and_cancels_the_question(served, script):
    def prompt(agent):
        agent.ask("elicitation/create", mode="form", message="?", requestedSchema={})
        agent.wait("session/cancel")
        agent.end("cancelled")

    made = script(prompt=prompt)
    page = ask(served, made)
    late = page.find("ButtonModel", description="Submit")
    served.interrupt()
    served.finish(page.cell, SHORT).expect_error("TurnCancelled")
    assert answers(made) == [{"action": "cancel"}]
    assert page.models == {}
    page.send(late, {"method": "custom", "content": {"event": "click"}})
    served.run("%acp").expect_ok()
    assert answers(made) == [{"action": "cancel"}]


def test_a_page_that_is_loaded_anew_gets_what_was_typed(served, script):
    made = script(prompt=every_type)
    page = ask(served, made)
    host = page.find("TextModel")
    page.set(host, value="typed")
    seen = len(page.cell.contents("comm_msg"))
    before = len(served.seen)
    page.send(host, {"method": "request_state"})

    def state_sent() -> bool:
        messages = [m["content"] for m in served.seen[before:] if m["msg_type"] == "comm_msg"]
        states = [m["data"].get("state", {}) for m in messages if m["comm_id"] == host]
        return any(s.get("value") == "typed" and "_model_name" in s for s in states)

    served.read(state_sent, SHORT)
    assert seen <= len(page.cell.contents("comm_msg"))
    page.click("Decline")
    served.finish(page.cell).expect_ok()


def visit(agent):
    if agent.turn > 1:
        for name in ("unknown", "visit-1", "visit-1"):
            params = {"elicitationId": name}
            agent.send({"jsonrpc": "2.0", "method": "elicitation/complete", "params": params})
        agent.text("logged in")
        return
    ident = agent.request(
        "elicitation/create",
        {
            "sessionId": agent.session_id,
            "mode": "url",
            "message": "Log in first",
            "elicitationId": "visit-1",
            "url": "https://xn--login-example.test/device?code=1234",
        },
    )
    agent.note("answer", agent.answer(ident)["result"])


@pytest.mark.obligation("C51", "C58")
def test_c51_c58_a_web_address_is_a_link_after_consent_and_closed_when_completed(served, script):
    made = script(prompt=visit)
    page = ask(served, made)
    assert "Host: xn--login-example.test" in page.words
    assert "https://xn--login-example.test/device?code=1234" in page.words
    assert "may look like" in page.words
    sources = [data.get("text/html", "") for data in page.cell.outputs]
    sources += [model.get("value", "") for model in page.models.values()]
    assert not any("<a " in source for source in sources if isinstance(source, str))
    page.click("Show the link")
    cell = served.finish(page.cell).expect_ok()
    assert made.notes("answer") == [{"action": "accept"}]
    links = re.findall('<a href="([^"]*)"', str(cell.outputs))
    assert links == ["https://xn--login-example.test/device?code=1234"]
    assert "logged in" in served.run("go on").expect_ok().text
    served.read(lambda: "Completed, says the agent" in cell.text)
    assert "<a " not in str(cell.outputs)


@pytest.mark.obligation("C58")
def test_c58_a_web_address_can_be_declined(served, script):
    made = script(prompt=visit)
    page = ask(served, made)
    page.click("Decline")
    cell = served.finish(page.cell).expect_ok()
    assert made.notes("answer") == [{"action": "decline"}]
    assert "Declined by you" in cell.text
    assert "<a " not in str(cell.published)


def needs_a_visit(agent):
    """Source of prompts that fail with -32042 until the client has been told to visit."""
    if agent.turn > 2:
        agent.text("thank you")
        return
    visit = {
        "mode": "url",
        "elicitationId": "visit-1",
        "url": "https://login.example.test/device",
        "message": "Connect the account",
    }
    broken = {"mode": "url", "url": 7}
    data = {"elicitations": [broken, visit]}
    agent.reply(error={"code": -32042, "message": "A visit is needed", "data": data})


def test_an_error_that_asks_for_a_visit_puts_it_to_the_user_who_then_runs_the_cell_again(
    served, script
):
    made = script(prompt=needs_a_visit)
    page = ask(served, made)
    assert "Host: login.example.test" in page.words
    assert "Connect the account" in page.words
    page.click("Decline")
    cell = served.finish(page.cell).expect_error("RequestError")
    assert "Run the cell again to be asked." in cell.text
    assert "<a " not in str(cell.published)
    page = Page(served, served.start("go"))
    page.show()
    page.click("Show the link")
    cell = served.finish(page.cell).expect_error("RequestError")
    assert "Run the cell again when you have done what the page asks for." in cell.text
    links = re.findall('<a href="([^"]*)"', str(cell.outputs))
    assert links == ["https://login.example.test/device"]
    assert "thank you" in served.run("go").expect_ok().text


def test_an_interrupt_withdraws_a_visit_that_an_error_asks_for(served, script):
    made = script(prompt=needs_a_visit)
    page = ask(served, made)
    served.interrupt()
    served.finish(page.cell).expect_error("TurnCancelled")


def test_a_session_that_needs_a_visit_first_says_where(kernel, script):
    def new_session(agent):
        visit = {"elicitationId": "v", "url": "https://login.example.test/a", "message": "m"}
        odd = {"elicitationId": "w", "url": "javascript:alert(1)", "message": "m"}
        data = {"elicitations": [visit, odd]}
        agent.reply(error={"code": -32042, "message": "A visit is needed", "data": data})

    argv = " ".join(script(new_session=new_session).argv)
    cell = kernel.run(f"%acp connect -- {argv}").failed("RequestError")
    assert "Visit https://login.example.test/a, then run this again." in cell.traceback
    assert "javascript" not in cell.traceback


def test_f50_two_questions_are_put_one_after_the_other(served, script):
    def prompt(agent):
        idents = [
            agent.request(
                "elicitation/create",
                {
                    "sessionId": agent.session_id,
                    "mode": "form",
                    "message": f"Question {number}",
                    "requestedSchema": {},
                },
            )
            for number in (1, 2)
        ]
        agent.note("answers", [agent.answer(ident)["result"]["action"] for ident in idents])

    made = script(prompt=prompt)
    page = ask(served, made)
    assert "Question 1" in page.words
    assert "Question 2" not in page.words
    page.click("Decline")
    served.read(lambda: "Question 2" in page.words)
    page.show()
    page.click("Cancel")
    served.finish(page.cell).expect_ok()
    assert made.notes("answers") == [["decline", "cancel"]]


def test_the_demo_agent_asks_by_a_form(served):
    served.run("%acp connect demo").expect_ok()
    page = Page(served, served.start("ask Which colour? red | blue"))
    page.show()
    page.set(page.find("DropdownModel"), index=2)
    page.set(page.find("TextModel"), value="as the sea")
    page.click("Submit")
    cell = served.finish(page.cell).expect_ok()
    assert "You chose: blue (as the sea)." in cell.text


# -- in an ordinary Python notebook ---------------------------------------------------------------


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    home = tmp_path_factory.mktemp("python")
    with live_kernel(home, name=PLAIN, **as_server(home)) as running:
        running.run("%load_ext acp_jupyter").expect_ok()
        running.run("%acp connect demo").expect_ok()
        yield running


@pytest.mark.parametrize("where", ["main shell", "subshell"])
def test_a_form_of_a_cell_magic_is_filled_in_while_the_main_thread_waits(python, where):
    subshell = None
    if where == "subshell":
        answer = python.request("create_subshell_request", {}, channel="control")
        subshell = answer["subshell_id"]
    page = Page(python, python.start("%%acp\nask Which colour? red | blue"), subshell)
    page.show()
    page.click("Submit")
    python.read(lambda: "A value is needed." in page.words)
    page.set(page.find("DropdownModel"), index=1)
    page.click("Submit")
    cell = python.finish(page.cell).expect_ok()
    assert "You chose: red." in cell.text
    if subshell is not None:
        python.request("delete_subshell_request", {"subshell_id": subshell}, channel="control")


# -- line by line, and by nobody ------------------------------------------------------------------


def run(kernel: KernelUnderTest, made: Any, *replies: str) -> Any:
    left = list(replies)
    answer = (lambda _prompt: left.pop(0)) if replies else None
    kernel.connect(made)
    cell = kernel.run("go", answer=answer).ok()
    assert left == []
    return cell


def test_a_form_is_filled_in_on_stdin(kernel, script):
    made = script(prompt=every_type)
    cell = run(kernel, made, "", "x", "3", "", "n", "2", "a, c", "")
    content = {
        "host": "staging",
        "count": 3,
        "ratio": 0.5,
        "dry": False,
        "size": "l",
        "tags": ["a", "c"],
    }
    assert answers(made) == [{"action": "accept", "content": content}]
    assert "scripted_agent.py asks you" in cell.asked[0]
    assert cell.asked[2].startswith("A whole number is needed.")
    assert "tags: a, c" in cell.asked[-1]
    assert "Answered by you" in cell.text


@pytest.mark.obligation("C49")
@pytest.mark.parametrize(("reply", "action"), [("/decline", "decline"), ("/cancel", "cancel")])
def test_c49_a_form_on_stdin_can_be_declined_and_cancelled(kernel, script, reply, action):
    made = script(prompt=every_type)
    run(kernel, made, "", reply)
    assert answers(made) == [{"action": action}]


@pytest.mark.obligation("C58")
def test_c58_a_web_address_on_stdin_is_shown_in_full_and_needs_a_yes(kernel, script):
    made = script(prompt=visit)
    cell = run(kernel, made, "1")
    assert "host xn--login-example.test" in cell.asked[0]
    assert "address https://xn--login-example.test/device?code=1234" in cell.asked[0]
    assert made.notes("answer") == [{"action": "accept"}]
    made = script(prompt=visit)
    run(kernel, made, "no")
    assert made.notes("answer") == [{"action": "decline"}]


def test_where_nobody_can_answer_the_agent_is_told_at_once(kernel, script):
    made = script(prompt=every_type)
    started = time.monotonic()
    kernel.connect(made)
    cell = kernel.run("go").ok()
    assert time.monotonic() - started < SHORT
    assert answers(made) == [{"action": "cancel"}]
    assert "nobody can answer" in cell.text


def test_f50_a_form_for_a_password_is_declined_and_nobody_is_asked(kernel, script):
    def prompt(agent):
        for field in ({"title": "Your password"}, {"description": "the API key of the team"}):
            schema = {"type": "object", "properties": {"value": {"type": "string", **field}}}
            agent.ask("elicitation/create", mode="form", message="Hi", requestedSchema=schema)

    made = script(prompt=prompt)
    kernel.connect(made)
    cell = kernel.run("go", answer=lambda _prompt: "hunter2").ok()
    assert answers(made) == [{"action": "decline"}] * 2
    assert cell.asked == []
    assert cell.text.count("it asks for a password or another secret") == 2


def test_a_deny_policy_declines(kernel, script):
    made = script(prompt=every_type)
    kernel.connect(made)
    kernel.run("%acp permissions deny").ok()
    try:
        cell = kernel.run("go", answer=lambda _prompt: "").ok()
    finally:
        kernel.run("%acp permissions ask").ok()
    assert answers(made) == [{"action": "decline"}]
    assert cell.asked == []


@pytest.mark.obligation("C62")
def test_c62_f60_unknown_modes_and_broken_requests_get_an_error_and_harm_nothing(kernel, script):
    def prompt(agent):
        agent.ask("elicitation/create", mode="_voice", message="Say it", phrase="x")
        for broken in ({}, {"mode": "form"}, {"mode": "form", "message": "m"}):
            agent.ask("elicitation/create", **broken)
        agent.ask("elicitation/create", mode="url", message="m", url=7, elicitationId="x")
        agent.text("still here")

    made = script(prompt=prompt)
    kernel.connect(made)
    cell = kernel.run("go", answer=lambda _prompt: "").ok()
    assert [answer["code"] for answer in answers(made)] == [-32602] * 5
    assert "in a way that this client does not know: '_voice'" in cell.text
    assert "still here" in cell.text
    assert cell.asked == []


def test_the_older_method_is_answered_as_the_one_that_took_its_place(kernel, script):
    def prompt(agent):
        params = {
            "sessionId": agent.session_id,
            "mode": "form",
            "message": "Name?",
            "requestedSchema": {"properties": {"name": {"type": "string"}}},
        }
        request = {"jsonrpc": "2.0", "id": 77, "method": "session/elicitation", "params": params}
        agent.send(request)
        agent.note("answer", agent.answer(77)["result"])

    made = script(prompt=prompt)
    made.older_methods.add("session/elicitation")
    run(kernel, made, "Ada", "")
    assert made.notes("answer") == [{"action": "accept", "content": {"name": "Ada"}}]


def test_a_question_about_a_request_is_put_in_the_turn_that_runs(kernel, script):
    def prompt(agent):
        params = {
            "requestId": agent.current_id,
            "mode": "form",
            "message": "Name?",
            "requestedSchema": {"properties": {"name": {"type": "string"}}},
        }
        ident = agent.request("elicitation/create", params)
        agent.note("answer", agent.answer(ident)["result"])

    made = script(prompt=prompt)
    run(kernel, made, "Ada", "")
    assert made.notes("answer") == [{"action": "accept", "content": {"name": "Ada"}}]


def test_a_question_while_no_turn_runs_is_answered_and_asks_nobody(kernel, script):
    def new_session(agent):
        params = {"requestId": agent.current_id, "mode": "form", "message": "m"}
        ident = agent.request("elicitation/create", {**params, "requestedSchema": {}})
        agent.note("answer", agent.answer(ident)["result"])
        ident = agent.request("elicitation/create", params)
        agent.note("broken", agent.answer(ident)["error"]["code"])
        agent.reply({"sessionId": agent.session_id})

    made = script(new_session=new_session)
    kernel.connect(made)
    assert made.notes("answer") == [{"action": "cancel"}]
    assert made.notes("broken") == [-32602]


def test_both_modes_are_advertised(kernel, script):
    made = script()
    kernel.connect(made)
    (initialize,) = made.received("initialize")
    capabilities = initialize["params"]["clientCapabilities"]
    assert capabilities["elicitation"] == {"form": {}, "url": {}}
