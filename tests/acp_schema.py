"""The official ACP schemas as an oracle: is this message what the protocol allows?

`validate_message` finds the definition of a message by its method (the schemas' ``x-method`` and
``x-side``) and checks three things: the JSON-RPC envelope, the definition, and that no field is
there that the definition does not know. The last is a rule of the protocol (extensions live in
``_meta``) that the schemas themselves do not state.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
from jsonschema.protocols import Validator

_SCHEMAS = Path(__file__).parent / "schema"
# Who serves a method is the schema's ``x-side``; ``protocol`` and ``both`` go either way.
_SERVED_BY = {"to_agent": "agent", "to_client": "client"}


class SchemaMismatch(AssertionError):
    """The message is not what the official schema says."""


def validate_message(
    direction: str,
    message: Any,
    version: int = 1,
    unstable: bool = True,
    method_of_response: str | None = None,
) -> None:
    """Check one JSON-RPC message against the official schema.

    Args:
        direction: ``to_agent`` (the client sends it) or ``to_client`` (the agent sends it).
        message: the message, decoded.
        version: protocol version, 1 or 2.
        unstable: allow what only the unstable schema has.
        method_of_response: for a response, the method of the request that it answers.

    Raises:
        SchemaMismatch: the message breaks the schema, or has a field or method unknown to it.
    """
    kind = _check_envelope(message)
    if kind == "Response":
        if method_of_response is None:
            raise ValueError("a response needs method_of_response")
        if "error" in message:
            _check(version, unstable, "Error", message["error"])
            return
        # The side that sends a response is the one that serves the method.
        side = _SERVED_BY["to_client" if direction == "to_agent" else "to_agent"]
        method, payload = method_of_response, message["result"]
    else:
        side, method = _SERVED_BY[direction], message["method"]
        payload = message.get("params")
    if method.startswith("_"):
        return
    definition = find_definition(version, unstable, side, method, kind)
    if definition is None:
        raise SchemaMismatch(f"no {kind} {method!r} is served by the {side}: {_short(message)}")
    _check(version, unstable, definition, {} if payload is None else payload)


def definition_names(version: int, unstable: bool) -> dict[tuple[str, str, str], str]:
    """Definition by (side that serves it, method, ``Request``/``Response``/``Notification``)."""
    return dict(_index(version, unstable))


def find_definition(version: int, unstable: bool, side: str, method: str, kind: str) -> str | None:
    """The name of the definition of a message's params or result; None if there is none."""
    index = _index(version, unstable)
    for candidate in (side, "both", "protocol"):
        if (candidate, method, kind) in index:
            return index[candidate, method, kind]
    return None


def definition(version: int, unstable: bool, name: str) -> dict[str, Any]:
    """One of the schema's ``$defs``."""
    found: dict[str, Any] = _schema(version, unstable)["$defs"][name]
    return found


def _check_envelope(message: Any) -> str:
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise SchemaMismatch(f"no JSON-RPC 2.0 object: {_short(message)}")
    if "id" in message and not (
        message["id"] is None or isinstance(message["id"], str) or type(message["id"]) is int
    ):
        raise SchemaMismatch(f"an id is a string, an integer or null: {_short(message)}")
    if "method" in message:
        kind, allowed = ("Request" if "id" in message else "Notification"), {"method", "params"}
        valid = isinstance(message["method"], str)
    else:
        kind, allowed = "Response", {"result", "error"}
        valid = "id" in message and ("result" in message) != ("error" in message)
    if not valid or set(message) - allowed - {"jsonrpc", "id"}:
        raise SchemaMismatch(f"no request, response or notification: {_short(message)}")
    return kind


def _check(version: int, unstable: bool, name: str, payload: Any) -> None:
    validator = _validator(version, unstable, f"#/$defs/{name}")
    error = jsonschema.exceptions.best_match(validator.iter_errors(payload))
    if error is not None:
        raise SchemaMismatch(f"{name} at {error.json_path}: {error.message}")
    for path in _unknown_fields(version, unstable, {"$ref": f"#/$defs/{name}"}, payload, "$"):
        raise SchemaMismatch(f"{name} has an unknown field at {path}: {_short(payload)}")


@functools.cache
def _schema(version: int, unstable: bool) -> dict[str, Any]:
    name = "schema.unstable.json" if unstable else "schema.json"
    schema: dict[str, Any] = json.loads((_SCHEMAS / f"v{version}" / name).read_text("utf-8"))
    return schema


@functools.cache
def _index(version: int, unstable: bool) -> dict[tuple[str, str, str], str]:
    index: dict[tuple[str, str, str], str] = {}
    for name, found in _schema(version, unstable)["$defs"].items():
        for kind in ("Request", "Response", "Notification"):
            if "x-method" in found and name.endswith(kind):
                index[found["x-side"], found["x-method"], kind] = name
    return index


@functools.cache
def _validator(version: int, unstable: bool, ref: str) -> Validator:
    schema = {"$ref": ref, "$defs": _schema(version, unstable)["$defs"]}
    return jsonschema.Draft202012Validator(schema)


def _resolve(version: int, unstable: bool, schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = definition(version, unstable, schema["$ref"].removeprefix("#/$defs/"))
    return schema


def _branches(
    version: int, unstable: bool, schema: dict[str, Any], value: Any
) -> Iterator[dict[str, Any]]:
    """The schema and all parts of it that apply to a value."""
    schema = _resolve(version, unstable, schema)
    yield schema
    for part in schema.get("allOf", ()):
        yield from _branches(version, unstable, part, value)
    for key in ("anyOf", "oneOf"):
        for part in schema.get(key, ()):
            if _applies(version, unstable, part, value):
                yield from _branches(version, unstable, part, value)


def _applies(version: int, unstable: bool, part: dict[str, Any], value: Any) -> bool:
    whole = {**part, "$defs": _schema(version, unstable)["$defs"]}
    return bool(jsonschema.Draft202012Validator(whole).is_valid(value))


def _unknown_fields(
    version: int, unstable: bool, schema: dict[str, Any], value: Any, path: str
) -> Iterator[str]:
    """Paths of the fields of a valid value that no applying part of its schema names."""
    parts = list(_branches(version, unstable, schema, value))
    if isinstance(value, list):
        for part in parts:
            for i, item in enumerate(value if "items" in part else ()):
                yield from _unknown_fields(version, unstable, part["items"], item, f"{path}[{i}]")
    if not isinstance(value, dict):
        return
    known = {name: field for part in parts for name, field in part.get("properties", {}).items()}
    open_ended = not known or any(
        part.get("additionalProperties", False) or part.get("unevaluatedProperties", False)
        for part in parts
    )
    for name, item in value.items():
        if name in known:
            yield from _unknown_fields(version, unstable, known[name], item, f"{path}.{name}")
        elif not open_ended:
            yield f"{path}.{name}"


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:400]
