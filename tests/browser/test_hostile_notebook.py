"""A notebook that somebody made to be opened here: its outputs say what no kernel would say.

Also converted and exported: what nbconvert and `acp-jupyter export` make of hostile content.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from acp_jupyter.rendering.entrydata import MIME
from tests import hostile
from tests.bench.kernels import OURS, write_kernel_specs
from tests.browser.hostile_agent import PARTS
from tests.browser.hostile_watch import TRAP, Watch
from tests.browser.pages import PANEL, LabPage, NotebookPage
from tests.live_kernel import kernel_environment

pytestmark = pytest.mark.browser

RUN = hostile.RUN

ENTRY = ".acp-Entry[data-mime-type]"

FAKE = (
    f"<script>{RUN}</script><img src=x onerror={RUN}><iframe src={hostile.HOST}></iframe>"
    "<button class='acp-Entry-button' data-acp-action='run' data-acp-index='0'>Run</button>"
    f"<a href='javascript:{RUN}'>a</a><form action={hostile.HOST}><input></form>"
    f"<p style='position:fixed;inset:0;background:url({hostile.HOST}/p)' class='jp-Dialog'>p</p>"
    "<p data-commandlinker-command='terminal:create-new' id='jp-main-dock-panel'>c</p>"
    f"<p>$\\href{{javascript:{RUN}}}{{x}}$</p><p>{hostile.MATHS[10]}</p>"
)

ORIGIN = {"agent": "a", "session": "s", "turn": 1}


def entry(kind: str, /, **fields: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "type": kind,
        "id": "e",
        "label": f"</div><script>{RUN}</script>",
        **fields,
    }


def call(**fields: Any) -> dict[str, Any]:
    known = {"kind": "edit", "title": "t", "status": "completed", "finished": True}
    return entry("tool_call", **known, added=1, removed=1, locations=[], **fields)


def proposed(*cells: tuple[str, str]) -> dict[str, Any]:
    made = [{"language": name, "source": code, "state": "proposed"} for name, code in cells]
    return entry("cells", cells=made, origin=ORIGIN)


DEEP: Any = "x"
for _ in range(50):
    DEEP = {"d": DEEP}

MALFORMED: list[Any] = [
    None,
    17,
    "x",
    [],
    {},
    {"version": 1e308, "type": "footer"},
    {"version": -1, "type": "tool_call", "id": "x", "label": "x"},
    {"version": "1", "type": "cells", "id": "x", "label": "x"},
    {"__proto__": {"polluted": 1}, "constructor": {"prototype": {"polluted": 1}}, "version": 1},
    entry("__proto__"),
    entry("constructor"),
    entry("permission", state="__proto__"),
    entry("elicitation", state=["accepted"]),
    entry("footer", stopReason=f"<img src=x onerror={RUN}>", duration=1e300),
    entry("plan", done=1e308, total=-5),
    entry("plan", done=9, total=1, __proto__={"polluted": 1}),
    call() | {"locations": {"path": "x"}},
    call() | {"locations": [{"path": 5}]},
    call() | {"added": "1", "deep": DEEP},
    call() | {"locations": [{"path": "x", "line": 1e300}]},
    proposed() | {"cells": [{"language": "python"}]},
    proposed(("python", "x")) | {"origin": {"__proto__": {"agent": "x"}}},
    *(call() | {"title": text, "kind": text, "status": text, "id": text} for text in hostile.SVG),
]

PATHS = [
    "../../../etc/passwd",
    "/etc/passwd",
    "//hostile.invalid/x",
    f"javascript:{RUN}",
    "RTC:x/../../y",
]

OTHERS = ["javascript", "html", "__proto__", "constructor", "acp", "ipython", ""]

DECEIT = "print('safe')  # \u202e)'evil'(tnirp\u2066\u200b\nprint('shown')"


def output(data: Any, html: str = FAKE) -> Any:
    bundle = {MIME: data, "text/html": html, "text/plain": html}
    return nbformat.v4.new_output("display_data", bundle)


def write(page: NotebookPage, *cells: list[Any], kernel: str = "python3") -> None:
    """Open a notebook of these outputs; nobody has signed it."""
    made = nbformat.v4.new_notebook()
    made.cells = [nbformat.v4.new_code_cell("x", outputs=outputs) for outputs in cells]
    made.metadata["kernelspec"] = {"name": kernel, "display_name": kernel, "language": "python"}
    made.metadata["language_info"] = {"name": "python"}
    page.name = "sent.ipynb"
    nbformat.write(made, page.server.root / page.name)
    page.open(page.name)


TRUST = f"""() => {{
  for (const cell of {PANEL}.content.widgets) cell.model.trusted = true;
}}"""


def test_f54_f62_a_notebook_that_was_sent_runs_nothing(frontend: NotebookPage) -> None:
    watch = Watch(frontend)
    locations = [{"path": path, "line": 1} for path in PATHS]
    hostile_cells = [(name, f"%%javascript\n{RUN}") for name in OTHERS]
    hostile_cells += [("markdown", f"<img src=x onerror={RUN}>"), ("python", "!touch ran")]
    whole = [call() | {"locations": locations}, proposed(*hostile_cells)]
    write(frontend, [output(data) for data in MALFORMED], [output(data) for data in whole])
    watch.address = frontend.page.url
    expect(frontend.output(1).locator(ENTRY)).to_have_count(2)
    for trusted in (False, True):
        if trusted:
            frontend.page.evaluate(TRUST)
        for index in (0, 1):
            frontend.output(index).locator(ENTRY).first.wait_for()
            watch.look_at_cell(index)
    watch.assert_harmless()
    assert frontend.page.evaluate("() => ({}).polluted") is None
    assert [each["source"] for each in frontend.cells()] == ["x", "x"]
    assert not (frontend.server.root / "ran").exists()


def test_f54_locations_of_a_notebook_lead_nowhere_else(lab: LabPage) -> None:
    locations = [{"path": path, "line": 1} for path in PATHS]
    write(lab, [output(call() | {"locations": locations}, "<p>Edit</p>")])
    watch = Watch(lab)
    watch.address = lab.page.url
    buttons = lab.output(0).locator("[data-acp-action=open]")
    expect(buttons).to_have_count(len(PATHS))
    toasts = lab.page.locator(".Toastify__toast")
    for index in range(len(PATHS)):
        buttons.nth(index).click()
        expect(toasts).to_have_count(index + 1)
    for text in toasts.all_inner_texts():
        assert "outside the folder that this server shows" in text or "no such file" in text
    assert lab.page.evaluate("() => [...window.jupyterapp.shell.widgets('main')].length") == 1
    watch.assert_harmless()


def test_f53_f54_what_is_run_of_a_proposal_is_what_was_shown(lab: LabPage) -> None:
    others = [(name, RUN) for name in OTHERS]
    shows_other = (
        "<div><details></details><div class='highlight'><pre>print('other')</pre></div></div>"
    )
    write(lab, [output(proposed(("python", DECEIT), *others), shows_other)])
    count = 1 + len(OTHERS)
    shown = lab.output(0).locator(".acp-Entry-source").first.inner_text()
    assert "other" not in shown
    assert "⟨U+202E⟩" in shown
    for index in range(2, count + 1):
        for action in (f"Run proposed cell {index} of {count}",
                       f"Insert proposed cell {index} of {count} below"):  # fmt: skip
            expect(lab.button(0, action)).to_be_disabled()
    lab.click_button(0, "Insert all")
    expect(lab.output(0).get_by_text("✓ inserted")).to_have_count(1)
    lab.click_button(0, f"Run proposed cell 1 of {count}")
    lab.page.wait_for_function(f"() => {PANEL}.content.widgets.length === 3")
    made = [each["source"] for each in lab.cells()[1:]]
    assert made == [shown.removesuffix("\n")] * 2


# -- as a file ---------------------------------------------------------------------------------

OTHERS_SCRIPTS = (
    "https://cdnjs.cloudflare.com/",
    "https://cdn.jsdelivr.net/",
    "https://unpkg.com/",
)
"""Where nbconvert's own pages load RequireJS, MathJax, mermaid and widgets from."""


@pytest.fixture(scope="module")
def conversation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A notebook in which the hostile agent has said everything."""
    home = tmp_path_factory.mktemp("conversation")
    write_kernel_specs(home)
    (home / "workspace").mkdir()
    told = [f"texts {number}" for number in range(PARTS)]
    prompts = [*told, "blocks", "reports", "code", "names", "permission", "form", "visit"]
    connect = f"%acp connect -- {sys.executable} -m tests.browser.hostile_agent"
    sources = [connect, *prompts, "%acp", "%acp permissions allow", "decided", "client"]
    cells = [nbformat.v4.new_code_cell(source) for source in (*sources, "end", "texts 0")]
    made = nbformat.v4.new_notebook(cells=cells)
    made.metadata["kernelspec"] = {"name": OURS, "display_name": OURS, "language": "acp"}
    path = home / "workspace" / "told.ipynb"
    nbformat.write(made, path)
    options = ["--execute", "--allow-errors", "--inplace", "--to", "notebook"]
    environment = kernel_environment(home)
    _run(["-m", "nbconvert", *options, str(path)], environment)
    _run(["-m", "nbconvert", "--to", "html", str(path)], environment)
    exported = ["--to", "html", "-o", str(path.with_name("exported.html"))]
    _run(["-m", "acp_jupyter.cli", "export", str(path), *exported], environment)
    return path.parent


def _run(arguments: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]


HELD = """selector => [...document.querySelectorAll(selector)].flatMap(root =>
  [...root.querySelectorAll('*')].filter(node =>
    node.matches('script, iframe, object, embed, form, input, button, style, link, meta, base, svg')
    || [...node.attributes].some(({name, value}) => name.startsWith('on')
      || (['href', 'src'].includes(name) && !/^(https?:|#|data:(image|audio))/.test(value))
      || (name === 'style' && /position|url\\(/.test(value)))
  ).map(node => node.outerHTML.slice(0, 300))).slice(0, 10)"""


@pytest.mark.parametrize(
    ("name", "body"), [("told.html", ".jp-OutputArea-output"), ("exported.html", "main")]
)
def test_f51_f52_a_converted_conversation_is_inert(
    conversation: Path, browser: Browser, name: str, body: str
) -> None:
    context = browser.new_context()
    page: Page = context.new_page()
    asked: list[str] = []

    def note(route: Route) -> None:
        url = route.request.url
        if url.startswith("file://"):
            route.continue_()
            return
        asked.append(url)
        route.abort()

    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    page.add_init_script(TRAP)
    page.route("**/*", note)
    page.goto((conversation / name).as_uri())
    assert page.locator(body).count() > 0
    assert hostile.SCRIPTS[0] in page.locator(body).first.page.inner_text("body")
    page.evaluate(
        "() => document.querySelectorAll('details').forEach(each => { each.open = true })"
    )
    page.evaluate("() => new Promise(done => setTimeout(done, 300))")
    assert page.evaluate("Boolean(window.__sprung)") is False
    assert [url for url in asked if not url.startswith(OTHERS_SCRIPTS)] == []
    assert (asked == []) or name == "told.html"
    assert dialogs == []
    assert page.evaluate(HELD, body) == []
    context.close()
