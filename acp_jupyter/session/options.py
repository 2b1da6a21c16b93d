"""What of a session the user can set: config options, or what older agents have in their place.

An agent that has config options has them for everything (its modes say the same once more), so
modes and the older models are options only where it has none. Options and values keep the agent's
order. An option of a type that nobody knows, and an id with characters that cannot be seen, is
left out: it could not be shown, and so not be chosen. What configures the model stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from ..protocol.dialects import dicts, identifier
from .transcript import SessionInfo

Method = Literal["session/set_config_option", "session/set_mode", "session/set_model"]

OPTIONS: Final = 50
VALUES: Final = 500
"""How many options, and values of one, are offered."""


@dataclass(frozen=True, slots=True)
class OptionValue:
    """One value of a select; the texts are the agent's."""

    value: str
    name: str = ""
    description: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class Option:
    """Something that can be set; the texts are the agent's.

    Attributes:
        id: as the agent calls it; "mode" and "model" for those that are no config options.
        category: mode, model, thought_level, any other string, or empty.
        value: the current one; of a select any string, of a boolean a bool.
        values: of a select.
        method: sets it.
    """

    id: str
    name: str
    kind: Literal["select", "boolean"]
    value: str | bool
    values: tuple[OptionValue, ...] = ()
    description: str = ""
    category: str = ""
    method: Method = "session/set_config_option"

    def accepts(self, value: object) -> bool:
        """Whether it can be set to that."""
        if self.kind == "boolean":
            return type(value) is bool
        return any(known.value == value for known in self.values)

    def request(self, value: str | bool) -> dict[str, Any]:
        """The parameters of its method, without the session."""
        match self.method:
            case "session/set_mode":
                return {"modeId": value}
            case "session/set_model":
                return {"modelId": value}
        typed = {"type": "boolean"} if self.kind == "boolean" else {}
        return {"configId": self.id, "value": value, **typed}


def options(info: SessionInfo) -> list[Option]:
    """The options of a session as they stand."""
    if info.config_options:
        found = [_config_option(option) for option in info.config_options[:OPTIONS]]
        return _beside_model([option for option in found if option is not None])
    named = []
    if info.modes:
        modes = tuple(_values(info.modes, "id"))
        current = info.current_mode or ""
        named.append(
            Option("mode", "Mode", "select", current, modes, "", "mode", "session/set_mode")
        )
    if info.models:
        models = tuple(_values(info.models, "modelId"))
        current = info.current_model or ""
        named.append(
            Option("model", "Model", "select", current, models, "", "model", "session/set_model")
        )
    return named


def _beside_model(found: list[Option]) -> list[Option]:
    """The options of the model after the model (C47); all others keep their order (C44)."""
    model = next((option for option in found if option.category == "model"), None)
    if model is None:
        return found
    beside = [option for option in found if option.category == "model_config"]
    rest = [option for option in found if option.category != "model_config"]
    at = rest.index(model) + 1
    return [*rest[:at], *beside, *rest[at:]]


def _config_option(option: dict[str, Any]) -> Option | None:
    ident = _ident(option.get("id"))
    value = option.get("currentValue")
    if ident is None:
        return None
    name = _text(option.get("name")) or ident
    texts = _text(option.get("description")), _text(option.get("category"))
    match option.get("type"):
        case "boolean" if type(value) is bool:
            return Option(ident, name, "boolean", value, (), *texts)
        case "select" if type(value) is str:
            values = tuple(_select_values(dicts(option.get("options"))))[:VALUES]
            return Option(ident, name, "select", value, values, *texts)
    return None


def _select_values(items: list[dict[str, Any]]) -> Iterator[OptionValue]:
    """The values of a select; groups are flattened."""
    for item in items:
        if "value" in item:
            yield from _values([item], "value")
        else:
            title = _text(item.get("name")) or _text(item.get("group"))
            yield from _values(dicts(item.get("options")), "value", title)


def _values(items: list[dict[str, Any]], key: str, group: str = "") -> Iterator[OptionValue]:
    for item in items[:VALUES]:
        value = _ident(item.get(key))
        if value is not None:
            name = _text(item.get("name")) or value
            yield OptionValue(value, name, _text(item.get("description")), group)


def _ident(value: object) -> str | None:
    found = identifier(value)
    return found if found is not None and found.isprintable() else None


def _text(value: object) -> str:
    return value if type(value) is str else ""
