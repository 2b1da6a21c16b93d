"""Forms and web addresses of the agent, filled in and consented to in a real frontend."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator

from tests.browser.pages import LabPage, NotebookPage
from tests.scripted import Script

pytestmark = pytest.mark.browser

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def page(talk: NotebookPage) -> Iterator[NotebookPage]:
    """`talk`, without a turn that goes on: a test that fails does not take others with it."""
    yield talk
    last = len(talk.cells()) - 1
    if talk.is_running(last):
        talk.interrupt()
        talk.wait_until_done(last)


def form(page: NotebookPage, cell: int, message: str) -> Locator:
    """The output of an open question, once its buttons are there."""
    decline = page.page.get_by_role("button", name="Decline")
    outputs = page.output(cell).locator(".jp-OutputArea-child")
    found = outputs.filter(has_text=message).filter(has=decline)
    found.wait_for()
    return found


def test_a_form_is_filled_in_while_the_cell_runs(page: NotebookPage) -> None:
    cell = page.ask("ask Which colour? red | blue", wait=False)
    asked = form(page, cell, "Which colour?")
    assert "demo asks you:" in asked.inner_text()
    asked.get_by_role("button", name="Submit").click()
    asked.get_by_text("A value is needed.").wait_for()
    assert page.is_running(cell)
    asked.locator("select").select_option(label="blue")
    asked.locator("input[type=text]").fill("as the sea")
    asked.get_by_role("button", name="Submit").click()
    page.wait_until_done(cell)
    assert "You chose: blue (as the sea)." in page.output_text(cell)
    saved = page.saved_outputs(cell)
    assert "Answered by you" in str(saved)
    assert WIDGET_VIEW not in str(saved)


def test_a_form_can_be_declined(page: NotebookPage) -> None:
    cell = page.ask("ask Which way? left | right", wait=False)
    form(page, cell, "Which way?").get_by_role("button", name="Decline").click()
    page.wait_until_done(cell)
    assert "You did not answer." in page.output_text(cell)
    assert "Declined by you" in page.output_text(cell)


def test_the_stop_button_closes_a_form(page: NotebookPage) -> None:
    cell = page.ask("ask Still there? yes | no", wait=False)
    form(page, cell, "Still there?")
    page.interrupt()
    page.wait_until_done(cell)
    assert "Cancelled after" in page.output_text(cell)
    assert page.output(cell).get_by_role("button", name="Submit").count() == 0


def test_every_type_of_field_and_a_link_after_consent(
    lab: LabPage, script: Callable[..., Script]
) -> None:
    def prompt(agent: Any) -> None:
        properties = {
            "name": {"type": "string", "title": "Name $x^2$", "default": "Ada"},
            "count": {"type": "integer", "minimum": 1},
            "dry": {"type": "boolean", "default": False},
            "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}},
        }
        agent.ask(
            "elicitation/create",
            mode="form",
            message="See https://elsewhere.invalid and <img src=x onerror=alert(1)>",
            requestedSchema={"properties": properties},
        )
        url = "https://login.invalid/device?code=1234"
        agent.ask("elicitation/create", mode="url", message="Log in", elicitationId="1", url=url)

    made = script(prompt=prompt)
    lab.new([f"%acp connect -- {shlex.join(made.argv)}"])
    lab.run(0)
    cell = lab.ask("go", wait=False)
    asked = form(lab, cell, "See https://elsewhere.invalid")
    assert "Name $x^2$" in asked.inner_text(), "the agent's words are no mathematics"
    assert asked.locator("a, img").count() == 0
    texts = asked.locator("input[type=text]")
    assert texts.nth(0).input_value() == "Ada"
    texts.nth(0).fill("Grace")
    texts.nth(1).fill("3")
    asked.locator("input[type=checkbox]").check()
    asked.locator("select[multiple]").select_option(label=["a", "c"])
    asked.get_by_role("button", name="Submit").click()
    visit = form(lab, cell, "Host: login.invalid")
    assert visit.locator("a").count() == 0
    visit.get_by_role("button", name="Show the link").click()
    lab.wait_until_done(cell)
    content = {"name": "Grace", "count": 3, "dry": True, "tags": ["a", "c"]}
    assert [note["result"] for note in made.notes("elicitation/create")] == [
        {"action": "accept", "content": content},
        {"action": "accept"},
    ]
    link = lab.output(cell).locator("a[href*='login.invalid']")
    assert link.get_attribute("href") == "https://login.invalid/device?code=1234"
    assert link.get_attribute("target") == "_blank"
