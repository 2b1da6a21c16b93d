"""The question before an agent is downloaded, in JupyterLab: buttons, and what stays of them."""

from __future__ import annotations

import os

import pytest

from tests.browser.pages import LabPage
from tests.registry_server import binary, demo_program, entry, registry_server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(os.name != "posix", reason="programs are scripts"),
]


def test_a_download_is_asked_by_buttons_and_what_was_decided_stays(lab: LabPage) -> None:
    with registry_server() as server:
        url = server.add("agent", demo_program())
        server.put(entry("paged", distribution=binary(url, demo_program(), cmd="./agent")))
        here = f"%%python\nimport os\nos.environ['ACP_JUPYTER_REGISTRY'] = {server.address!r}"
        lab.new([here, "%acp agents update", "%acp connect paged", "%acp connect paged"])
        lab.run(0)
        lab.run(1)
        lab.wait_for_output(1, "Agents in the registry: 1")
        lab.run(2, wait=False)
        lab.wait_for_output(2, "The paged is downloaded and run")
        lab.wait_for_output(2, "SHA-256: ")
        lab.click_button(2, "Deny")
        lab.wait_until_done(2)
        lab.wait_for_output(2, "you did not allow it")
        lab.button(2, "Allow once").first.wait_for(state="detached")
        lab.run(3, wait=False)
        lab.click_button(3, "Allow once")
        lab.wait_until_done(3)
        lab.wait_for_output(3, "Allowed once by you")
        lab.wait_for_output(3, "Connected to Demo Agent")
        lab.save()
        assert "widget-view" not in str(lab.saved_outputs(3))
