from __future__ import annotations

from typing import Any

import pytest

from acp_jupyter.errors import UsageError
from acp_jupyter.session.prompt import NEEDS, check_prompt

from .acp_schema import definition

BLOCKS: dict[str, dict[str, Any]] = {
    "text": {"type": "text", "text": "hello"},
    "image": {"type": "image", "data": "AA==", "mimeType": "image/png"},
    "audio": {"type": "audio", "data": "AA==", "mimeType": "audio/wav"},
    "resource_link": {"type": "resource_link", "uri": "file:///a", "name": "a"},
    "resource": {"type": "resource", "resource": {"uri": "file:///a", "text": "x"}},
}


def test_every_type_of_block_in_the_schema_is_known_here() -> None:
    alternatives = definition(1, False, "ContentBlock")["oneOf"]
    types = {alternative["properties"]["type"]["const"] for alternative in alternatives}
    assert types == set(BLOCKS)
    assert set(NEEDS) == types - {"text", "resource_link"}
    assert set(NEEDS.values()) <= set(definition(1, False, "PromptCapabilities")["properties"])


@pytest.mark.obligation("C29")
@pytest.mark.parametrize("kind", sorted(BLOCKS))
def test_c29_a_block_needs_the_prompt_capability_of_its_type(kind: str) -> None:
    needed = NEEDS.get(kind)
    if needed is None:
        check_prompt([BLOCKS[kind]], {})
        return
    check_prompt([BLOCKS["text"], BLOCKS[kind]], {needed: True})
    for capabilities in ({}, {needed: False}, {needed: None}, {needed: "yes"}):
        with pytest.raises(UsageError, match=f"takes no {kind} "):
            check_prompt([BLOCKS["text"], BLOCKS[kind]], capabilities)


def test_a_prompt_without_blocks_is_refused() -> None:
    with pytest.raises(UsageError, match="nothing to send"):
        check_prompt([], {"image": True})
