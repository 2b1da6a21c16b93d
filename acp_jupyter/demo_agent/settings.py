"""Modes, config options, and what the client offers.

The mode is offered twice, as ``modes`` and as the config option ``mode``: clients that know config
options use those only. Both always have the same value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from acp_jupyter.demo_agent.store import Session
from acp_jupyter.demo_agent.wire import INVALID_PARAMS, Json, RpcError

MODES = {
    "ask": ("Ask", "I ask before I change or run anything."),
    "trust": ("Trust", "I change and run things without asking."),
    "plan": ("Plan", "I only make plans and run nothing."),
}
MODELS = {
    "small": ("Small", "Short answers, 8,000 tokens of context"),
    "large": ("Large", "Longer answers, 64,000 tokens of context, ten times the price"),
}


class Offers(NamedTuple):
    """What the client can do; whatever it did not mention it cannot."""

    read: bool = False
    write: bool = False
    terminal: bool = False
    form: bool = False
    boolean_options: bool = False
    notices: bool = False
    compaction: bool = False
    display: bool = False  # version 2: shows terminals of the agent's own


def offers(capabilities: Any) -> Offers:
    """Read ``clientCapabilities`` of ``initialize``, of any shape."""

    def find(*keys: str) -> Any:
        value = capabilities
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    return Offers(
        read=find("fs", "readTextFile") is True,
        write=find("fs", "writeTextFile") is True,
        terminal=find("terminal") is True,
        form=isinstance(find("elicitation", "form"), dict),
        boolean_options=isinstance(find("session", "configOptions", "boolean"), dict),
        notices=isinstance(find("session", "notices"), dict),
        compaction=isinstance(find("session", "compaction"), dict),
    )


def _choices(key: str, table: dict[str, tuple[str, str]]) -> list[Json]:
    return [{key: i, "name": name, "description": text} for i, (name, text) in table.items()]


def modes(session: Session) -> Json:
    """The ``modes`` of a session's setup response."""
    return {"currentModeId": session.mode, "availableModes": _choices("id", MODES)}


def config_options(session: Session, offered: Offers) -> list[Json]:
    """The ``configOptions`` of a session as they stand."""
    options: list[Json] = [
        {
            "id": "mode",
            "name": "Mode",
            "description": "Whether the agent asks first",
            "category": "mode",
            "type": "select",
            "currentValue": session.mode,
            "options": _choices("value", MODES),
        },
        {
            "id": "model",
            "name": "Model",
            "category": "model",
            "type": "select",
            "currentValue": session.model,
            "options": _choices("value", MODELS),
        },
    ]
    if offered.boolean_options:
        options.append(
            {
                "id": "verbose",
                "name": "Verbose",
                "description": "Think aloud before each request",
                "type": "boolean",
                "currentValue": session.verbose,
            }
        )
    return options


def set_option(session: Session, offered: Offers, option: str, value: Any) -> None:
    """Set one config option.

    Raises:
        RpcError: there is no such option, or it has no such value.
    """
    if option == "mode" and isinstance(value, str) and value in MODES:
        session.mode = value
    elif option == "model" and isinstance(value, str) and value in MODELS:
        session.model = value
    elif option == "verbose" and offered.boolean_options and isinstance(value, bool):
        session.verbose = value
    else:
        known = ", ".join(item["id"] for item in config_options(session, offered))
        raise RpcError(
            INVALID_PARAMS,
            f"{option!r} cannot be set to {value!r}; the options are {known}.",
        )
