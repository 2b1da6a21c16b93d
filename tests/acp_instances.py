"""Values made from the official schemas: for each type, one of each variant of each part of it.

`instances` walks a definition. A union gives the values of all its variants, an object one value
with only what is required, one with everything, and one more for each further value of each
property; an array holds all values of its items at once. So every variant that a schema names, at
any depth, is in at least one value, without the product of them all.

Texts are marked with the path they stand at, to be found again in what is shown of them. Unions
and enumerations that are open get a value of an extension (``_x…``) and one of a later version.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

from tests.acp_schema import definition

EXTENSION = "_example.org/mine"
LATER = "of_a_later_version"

DEPTH = 12
"""Nesting at which only what is required is made; no type of the schemas is that deep."""

Schema = dict[str, Any]


class Instances:
    """Values of one of the schemas.

    Args:
        version: of the protocol.
        unstable: with what only the unstable schema has.
    """

    def __init__(self, version: int, unstable: bool) -> None:
        self._version = version
        self._unstable = unstable

    def of(self, name: str) -> list[Any]:
        """Values of a definition, the smallest first; none twice."""
        return self._distinct(self._values({"$ref": f"#/$defs/{name}"}, name, 0))

    def tags(self, name: str, tag: str) -> set[str]:
        """The known values of the property that tells the variants of a definition apart."""
        schema = definition(self._version, self._unstable, name)
        variants = schema.get("oneOf", schema.get("anyOf", []))
        consts = [variant.get("properties", {}).get(tag, {}).get("const") for variant in variants]
        return {const for const in consts if const is not None}

    # -- by form ---------------------------------------------------------------------------------

    def _values(self, schema: Schema, path: str, depth: int) -> list[Any]:
        schema = self._resolved(schema)
        if "const" in schema:
            return [schema["const"]]
        if "enum" in schema:
            return list(schema["enum"])
        variants = schema.get("oneOf", schema.get("anyOf"))
        if variants is not None:
            found = [
                value
                for variant in variants
                for value in self._values(_merged(schema, self._resolved(variant)), path, depth)
            ]
            return self._distinct(found)
        if "allOf" in schema:
            for part in schema["allOf"]:
                schema = _merged(schema, self._resolved(part))
            return self._values({k: v for k, v in schema.items() if k != "allOf"}, path, depth)
        types = schema.get("type", "any")
        return [
            value
            for kind in list(types if isinstance(types, list) else [types])
            for value in self._of_type(kind, schema, path, depth)
        ]

    def _of_type(self, kind: str, schema: Schema, path: str, depth: int) -> list[Any]:
        match kind:
            case "object":
                return list(self._objects(schema, path, depth))
            case "array":
                items = self._values(schema.get("items", {}), f"{path}[]", depth + 1)
                return [items] if schema.get("minItems") else [items, []]
            case "string":
                return [_text(schema, path)]
            case "integer":
                return [max(7, schema.get("minimum", 7))]
            case "number":
                return [0.5]
            case "boolean":
                return [True, False]
            case "null":
                return [None]
            case _:
                return [{"any": [_text(schema, path), 1, None]}]

    def _objects(self, schema: Schema, path: str, depth: int) -> Iterator[dict[str, Any]]:
        required = schema.get("required", [])
        by_name = {
            name: self._property(name, part, path, depth, schema)
            for name, part in schema.get("properties", {}).items()
            if depth < DEPTH or name in required
        }
        smallest = {name: values[0] for name, values in by_name.items() if name in required}
        whole = {name: values[0] for name, values in by_name.items()}
        yield smallest
        yield whole
        for name, values in by_name.items():
            for value in values[1:]:
                yield {**whole, name: value}
        if "not" in schema:  # the variant of an open union that stands for all that is unknown
            yield {**whole, "mine": _text({}, f"{path}.mine")}

    def _property(
        self, name: str, part: Schema, path: str, depth: int, parent: Schema
    ) -> list[Any]:
        if name == "_meta":
            return [{"example.org/any": [1, None]}, None]
        if "not" in parent and name in _excluded(parent["not"]):
            return [EXTENSION, LATER]
        return self._values(part, f"{path}.{name}", depth + 1)

    def _resolved(self, schema: Schema) -> Schema:
        while "$ref" in schema:
            named = definition(self._version, self._unstable, schema["$ref"].split("/")[-1])
            schema = _merged({k: v for k, v in schema.items() if k != "$ref"}, named)
        return schema

    def _distinct(self, values: list[Any]) -> list[Any]:
        found = {json.dumps(value, sort_keys=True): value for value in values}
        return list(found.values())


def _merged(outer: Schema, inner: Schema) -> Schema:
    """A schema with one of its parts in the place of the union or reference that named it."""
    merged = {k: v for k, v in outer.items() if k not in ("oneOf", "anyOf", "$ref")}
    for key, value in inner.items():
        if key == "properties":
            merged[key] = {**merged.get(key, {}), **value}
        elif key == "required":
            merged[key] = [*merged.get(key, []), *value]
        elif key == "allOf" and key in merged and merged[key] is not value:
            merged[key] = [*merged[key], *value]
        else:
            merged[key] = value
    return merged


def _excluded(schema: Schema) -> set[str]:
    """The properties by which a variant says that it is none of the others."""
    parts = schema.get("anyOf") or schema.get("oneOf") or [schema]
    return {name for part in parts for name in part.get("properties", {})}


def _text(schema: Schema, path: str) -> str:
    """A text that can be found again; of the form that its place asks for."""
    name = path.rsplit(".", 1)[-1].removesuffix("[]")
    mark = f"<{path}>"
    match name:
        case "data" | "blob":
            return base64.b64encode(mark.encode()).decode()
        case "mimeType":
            return "text/plain"
        case "uri" | "url":
            return f"https://example.org/{path}"
        case "path" | "oldPath" | "cwd" | "command":
            return f"/{path}"
        case "updatedAt" | "lastModified":
            return "2026-01-31T12:00:00Z"
        case "pattern":
            return ""
        case _:
            return EXTENSION if "not" in schema else mark
