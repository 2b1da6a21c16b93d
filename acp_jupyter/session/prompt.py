"""What may be in a prompt on the wire: content blocks that the agent can take (C29)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..errors import UsageError
from ..protocol.methods import supports

Block = dict[str, Any]

NEEDS = {"image": "image", "audio": "audio", "resource": "embeddedContext"}
"""Which prompt capability allows a type of block; text and resource_link are always allowed."""


def check_meta(meta: Mapping[str, Any]) -> dict[str, Any]:
    """What goes along as ``_meta``: an object of JSON, whose names are anybody's (C63-C65).

    Raises:
        UsageError: it is none.
    """
    try:
        encoded = msgspec.json.encode(meta)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"meta is no JSON: {error}", remedy="Use texts, numbers, lists and dicts."
        ) from error
    found = msgspec.json.decode(encoded)
    if type(found) is not dict:
        raise UsageError("meta is no object", remedy='For example `meta={"vendor/x": 1}`.')
    return found


def check_prompt(blocks: Sequence[Block], prompt_capabilities: Mapping[str, Any]) -> None:
    """Hold back what the agent did not say it takes.

    Raises:
        UsageError: nothing to send, or a block of a type that the agent does not take.
    """
    if not blocks:
        raise UsageError("there is nothing to send", remedy="Write a prompt.")
    for block in blocks:
        needed = NEEDS.get(block.get("type", ""))
        if needed is not None and not supports(prompt_capabilities, (needed,)):
            raise UsageError(
                f"this agent takes no {block['type']} in prompts",
                remedy="Send it as a file, or use an agent that takes it.",
            )
