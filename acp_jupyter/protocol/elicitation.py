"""Questions of the agent's to the user: a form, or a visit to a web address. Pure.

``elicitation/create`` is read into an `Elicitation`; the older ``session/elicitation`` has the
same shape. What the fields of a form take is in `forms`. The rules:

* A mode or a type of field that is not known is never shown as a known one (C62).
* A default of the wrong type is no default; a constraint of the wrong type is none.
* A form that asks for a password, a token or another secret is not shown at all: what is typed
  into it would reach the agent, the model and the log (F50). A web address is the way for those.
* Ids are opaque (C56).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import msgspec

from ..errors import Refusal
from .dialects import MAX_ID, identifier
from .forms import FORMATS, STRONG_SECRET, Choice, Field, Kind, asks_for_secret, plain_words

JSON = Any
Dict = dict[str, Any]
Mode = Literal["form", "url", "unknown"]
Action = Literal["accept", "decline", "cancel"]

MAX_FIELDS: Final = 50
MAX_CHOICES: Final = 500
MAX_NAME: Final = 200
"""Fields of one form, choices of one field, characters of a field's name: more cannot be meant
for a person."""

MAX_TEXT: Final = 4000
"""Characters kept of a message, and of a description."""

MAX_URL: Final = 8000

MAX_REQUIRED: Final = 5
"""Web addresses that one error may ask for."""


class Elicitation(msgspec.Struct, frozen=True):
    """A question of the agent's.

    Attributes:
        session_id: of a question in a session; ``None`` for one about a request of ours.
        mode: "unknown" is never shown as one of the others.
        mode_name: as the agent wrote it.
        title, description: of the form.
        url, elicitation_id: of a web address.
        problem: why it cannot be put to the user, in one line; empty if it can.
    """

    session_id: str | None
    mode: Mode
    mode_name: str
    message: str
    title: str = ""
    description: str = ""
    fields: tuple[Field, ...] = ()
    url: str = ""
    elicitation_id: str = ""
    problem: str = ""


# -- reading ------------------------------------------------------------------------------------


def elicitation(params: JSON) -> Elicitation:
    """Read ``elicitation/create``.

    Raises:
        Refusal: it is not one.
    """
    if type(params) is not dict:
        raise Refusal("params must be an object")
    session_id = identifier(params.get("sessionId"))
    if session_id is None and not _is_request_id(params.get("requestId")):
        raise Refusal(f"params must have a sessionId (up to {MAX_ID} characters) or a requestId")
    message = params.get("message")
    if type(message) is not str:
        raise Refusal("params.message must be a string")
    mode = params.get("mode")
    if mode is None and "requestedSchema" in params:
        mode = "form"  # MCP's servers may leave it out, and agents pass their questions on
    if type(mode) is not str:
        raise Refusal("params.mode must be a string")
    known: Dict = {
        "session_id": session_id,
        "mode_name": mode[:MAX_NAME],
        "message": message[:MAX_TEXT],
    }
    if mode == "form":
        return _form(params.get("requestedSchema"), known)
    if mode == "url":
        return _visit(params, known)
    return Elicitation(mode="unknown", problem="this client does not know the mode", **known)


def required(data: JSON) -> list[Elicitation]:
    """The visits that an error -32042 asks for before the request is tried again: those of its
    ``data.elicitations`` that can be understood."""
    listed = data.get("elicitations") if type(data) is dict else None
    found = []
    for item in listed[:MAX_REQUIRED] if type(listed) is list else []:
        if type(item) is dict and item.get("mode", "url") == "url":
            message = item.get("message")
            known: Dict = {
                "session_id": None,
                "mode_name": "url",
                "message": message[:MAX_TEXT] if type(message) is str else "",
            }
            try:
                found.append(_visit(item, known))
            except Refusal:
                continue
    return found


def about_request(params: JSON) -> bool:
    """Whether a question names no session, but a request of the client's."""
    return type(params) is dict and "sessionId" not in params and "requestId" in params


def completed_id(params: JSON) -> str | None:
    """The elicitation that ``elicitation/complete`` names; ``None`` if it names none."""
    return identifier(params.get("elicitationId")) if type(params) is dict else None


def _is_request_id(value: JSON) -> bool:
    return type(value) is int or (type(value) is str and len(value) <= MAX_ID)


def _form(schema: JSON, known: Dict) -> Elicitation:
    # Agents leave "type": "object" out; any other type would be another kind of answer.
    kind = schema.get("type") if type(schema) is dict else None
    if type(schema) is not dict or (type(kind) is str and kind != "object"):
        raise Refusal("params.requestedSchema must be the schema of an object")
    properties = schema.get("properties", {})
    if type(properties) is not dict or len(properties) > MAX_FIELDS:
        raise Refusal(f"params.requestedSchema.properties must be an object of up to {MAX_FIELDS}")
    listed = schema.get("required")
    required = {name for name in listed if type(name) is str} if type(listed) is list else set()
    if not required <= properties.keys():
        raise Refusal("params.requestedSchema.required names a property that is not there")
    fields = tuple(_field(name, value, name in required) for name, value in properties.items())
    title, description = _text(schema, "title"), _text(schema, "description")
    return Elicitation(
        mode="form",
        title=title,
        description=description,
        fields=fields,
        problem=_form_problem(fields, f"{known['message']} {title} {description}"),
        **known,
    )


def _form_problem(fields: Sequence[Field], about: str) -> str:
    for field in fields:
        if asks_for_secret(field):
            return "it asks for a password or another secret, which a form must not"
        if field.kind == "unknown" and field.required:
            return f"the client cannot show a field of this type, which is required: {field.name}"
    typed = [field for field in fields if field.kind == "text"]
    if len(fields) == len(typed) == 1 and STRONG_SECRET.search(plain_words(about)):
        return "it asks for a password or another secret, which a form must not"
    return ""


def _field(name: str, schema: JSON, required: bool) -> Field:
    if len(name) > MAX_NAME:
        raise Refusal(f"a property's name is longer than {MAX_NAME} characters")
    if type(schema) is not dict or type(schema.get("type")) is not str:
        raise Refusal(f"params.requestedSchema.properties.{name} must have a type")
    kind, choices = _kind_of(name, schema)
    low, high = _LIMITS.get(kind, ("", ""))
    pattern = schema.get("pattern") if kind == "text" else None
    form = schema.get("format") if kind == "text" else None
    return Field(
        name=name,
        kind=kind,
        title=_text(schema, "title") or name,
        description=_text(schema, "description"),
        required=required,
        default=_default(schema.get("default"), kind, choices),
        choices=choices,
        format=form if type(form) is str and form in FORMATS else "",
        pattern=pattern if type(pattern) is str else "",
        minimum=_limit(schema.get(low), kind),
        maximum=_limit(schema.get(high), kind),
    )


_LIMITS: Final[Mapping[str, tuple[str, str]]] = {
    "text": ("minLength", "maxLength"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "choices": ("minItems", "maxItems"),
}


def _kind_of(name: str, schema: Dict) -> tuple[Kind, tuple[Choice, ...]]:
    match schema["type"]:
        case "string":
            if schema.get("oneOf") is not None:
                return "choice", _choices(name, schema["oneOf"])
            if schema.get("enum") is not None:
                return "choice", _choices(name, schema["enum"])
            return "text", ()
        case "number" | "integer" | "boolean" as kind:
            return kind, ()
        case "array":
            items = schema.get("items")
            if type(items) is not dict:
                raise Refusal(f"params.requestedSchema.properties.{name}.items must be an object")
            if type(items.get("anyOf")) is list:
                return "choices", _choices(name, items["anyOf"])
            if items.get("type", "string") == "string" and type(items.get("enum")) is list:
                return "choices", _choices(name, items["enum"])
    return "unknown", ()


def _choices(name: str, listed: JSON) -> tuple[Choice, ...]:
    where = f"the choices of params.requestedSchema.properties.{name}"
    if type(listed) is not list or not 0 < len(listed) <= MAX_CHOICES:
        raise Refusal(f"{where} must be an array of 1 to {MAX_CHOICES}")
    choices = tuple(
        Choice(item, item)
        if type(item) is str
        else Choice(_const(where, item), _text(item, "title"), _text(item, "description"))
        for item in listed
    )
    if len({choice.value for choice in choices}) < len(choices):
        raise Refusal(f"{where} have the same value twice")
    return choices


def _const(where: str, item: JSON) -> str:
    if type(item) is not dict or type(item.get("const")) is not str:
        raise Refusal(f"{where} must be strings, or objects with a string const")
    value: str = item["const"]
    return value


def _text(item: Dict, key: str) -> str:
    value = item.get(key)
    return value[:MAX_TEXT] if type(value) is str else ""


def _limit(value: JSON, kind: Kind) -> int | float | None:
    if type(value) is int or (type(value) is float and kind == "number" and isfinite(value)):
        return value
    return None


def _default(value: JSON, kind: Kind, choices: Sequence[Choice]) -> JSON:
    values = {choice.value for choice in choices}
    match kind:
        case "text":
            good = type(value) is str
        case "number":
            good = type(value) is int or (type(value) is float and isfinite(value))
        case "integer":
            good = type(value) is int
        case "boolean":
            good = type(value) is bool
        case "choice":
            good = type(value) is str and value in values
        case "choices":
            if type(value) is not list:
                return None
            return [item for item in value if type(item) is str and item in values]
        case _:
            good = False
    return value if good else None


# -- web addresses ------------------------------------------------------------------------------


def _visit(params: Dict, known: Dict) -> Elicitation:
    ident, url = identifier(params.get("elicitationId")), params.get("url")
    if ident is None:
        raise Refusal(f"params.elicitationId must be a string of up to {MAX_ID} characters")
    if type(url) is not str or len(url) > MAX_URL:
        raise Refusal(f"params.url must be a string of up to {MAX_URL} characters")
    problem = "" if host_of(url) else "its address is no plain http or https address"
    return Elicitation(mode="url", url=url, elicitation_id=ident, problem=problem, **known)


def host_of(url: str) -> str:
    """The host of a web address, with its port if it names one; empty if it is none that a person
    can judge: another scheme, a user or password in it, invisible characters."""
    if not url.isprintable() or any(char.isspace() or char in '\\"<>`' for char in url):
        return ""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or "@" in parts.netloc or not parts.hostname:
        return ""
    return f"{parts.hostname}:{port}" if port is not None else parts.hostname


def is_deceptive(host: str) -> bool:
    """Whether a host has letters that may look like others: punycode, or beyond ASCII (C60)."""
    return not host.isascii() or any(part.startswith("xn--") for part in host.split("."))


def response(action: Action, given: Dict | None = None) -> Dict:
    """The answer to ``elicitation/create``; ``given`` is the content of an accepted form."""
    return {"action": action} if given is None else {"action": action, "content": given}
