"""What the schemas say of values that do not fit: a field counts as left out, an item as not there.

Where a schema marks a field with ``x-deserialize-default-on-error``, a value of a wrong type has to
read as if the field were missing; of a list marked ``x-deserialize-skip-invalid-items`` only what
is wrong is left out. The fields come from the schemas, the values from `tests.acp_instances`.
Updates have their own tests of that in `test_reducer`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import pytest

from acp_jupyter.errors import Refusal, RemoteProtocolError
from acp_jupyter.protocol import auth, dialects, elicitation, listing, outgoing, providers
from acp_jupyter.protocol.methods import AGENT_METHODS, supports
from acp_jupyter.session.options import options
from acp_jupyter.session.reducer import Reducer
from acp_jupyter.session.transcript import SessionInfo, Transcript
from tests.acp_instances import Instances
from tests.acp_schema import _branches, _schema
from tests.test_variants import SCHEMAS, applied, shown

DEFAULT = "x-deserialize-default-on-error"
SKIP = "x-deserialize-skip-invalid-items"

WRONG: list[Any] = [7, "of another type", {"of": "another type"}, True]
"""Tried in turn; the first one that the schema of a field does not allow is taken."""

Path = tuple[str | int, ...]


def read_session(version: int, answer: dict[str, Any]) -> Any:
    transcript = Transcript()
    Reducer(transcript, version).session_state(dialects.session_state(answer))
    info = transcript.info
    named = [command.get("name") for command in info.commands]
    without_options = SessionInfo(
        modes=info.modes, current_mode=info.current_mode, models=info.models
    )
    return [options(info), options(without_options), named, info.current_mode]


def read_initialize(version: int, answer: dict[str, Any]) -> Any:
    read = dialects.initialized({**answer, "protocolVersion": version}, version)
    offered = [method for method in AGENT_METHODS if outgoing.offers(read, method)]
    prompts = [
        supports(read.capabilities, ("promptCapabilities", kind))
        for kind in ("image", "audio", "embeddedContext")
    ]
    told = [read.name, read.title, read.agent_version]
    return [told, offered, prompts, outgoing.mcp_transports(read), auth.auth_methods(read)]


def read_permission(version: int, params: dict[str, Any]) -> Any:
    for number, option in enumerate(params["options"]):
        option["optionId"] = f"option-{number}"
    read = dialects.permission_request(params)
    call = {"toolCallId": "c", "sessionUpdate": "tool_call_update", **(read.tool_call or {})}
    texts = [read.title, read.description, read.command, read.cwd, read.options]
    return [texts, shown(applied(call, version))]


def read_question(_: int, params: dict[str, Any]) -> Any:
    params.get("requestedSchema", {}).pop("required", None)
    return elicitation.elicitation(params)


READERS: dict[str, Callable[[int, Any], Any]] = {
    "InitializeResponse": read_initialize,
    "NewSessionResponse": read_session,
    "LoadSessionResponse": read_session,
    "ResumeSessionResponse": read_session,
    "ForkSessionResponse": read_session,
    "ListSessionsResponse": lambda _, answer: listing.page(answer),
    "ListProvidersResponse": lambda _, answer: providers.providers(answer),
    "RequestPermissionRequest": read_permission,
    "CreateElicitationRequest": read_question,
}


def outcome(name: str, version: int, value: Any) -> Any:
    """What is read, or the words in which it is refused."""
    try:
        return READERS[name](version, copy.deepcopy(value))
    except (Refusal, RemoteProtocolError) as refused:
        return str(refused)


def marked(
    version: int, unstable: bool, schema: dict[str, Any], value: Any, path: Path = ()
) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Paths into a value at which a schema is lenient, with the schema of the field."""
    parts = list(_branches(version, unstable, schema, value))
    if isinstance(value, list):
        for part in parts:
            for index, item in enumerate(value if "items" in part else ()):
                yield from marked(version, unstable, part["items"], item, (*path, index))
    if isinstance(value, dict):
        fields = {name: f for part in parts for name, f in part.get("properties", {}).items()}
        for name in set(fields) & set(value):
            if DEFAULT in fields[name] or SKIP in fields[name]:
                yield (*path, name), fields[name]
            yield from marked(version, unstable, fields[name], value[name], (*path, name))


def replaced(value: Any, path: Path, *put: Any) -> Any:
    """A copy with another value at a path; with none, without what is there."""
    changed = copy.deepcopy(value)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    if put:
        inner[path[-1]] = put[0]
    else:
        del inner[path[-1]]
    return changed


def at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def kinds(value: Any, path: Path) -> tuple[Any, ...]:
    """A path without its indexes, and what the objects on it are: each place is tried once."""
    met: list[Any] = []
    for key in path:
        if isinstance(value, dict):
            met.append((value.get("type"), value.get("sessionUpdate"), key))
        value = value[key]
    return tuple(met)


def wrong(version: int, unstable: bool, field: dict[str, Any]) -> list[Any]:
    whole = {**field, "$defs": _schema(version, unstable)["$defs"]}
    validator = jsonschema.Draft202012Validator(whole)
    return [value for value in WRONG if not validator.is_valid(value)][:1]


def largest(made: list[Any]) -> list[Any]:
    """Of each kind the value with most in it."""
    found: dict[Any, Any] = {}
    for value in made:
        kind = value.get("sessionUpdate"), value.get("mode")
        if len(repr(value)) > len(repr(found.get(kind, ""))):
            found[kind] = value
    return list(found.values())


def cases(version: int, unstable: bool, name: str) -> Iterator[tuple[Any, Any, Path]]:
    """A value with something wrong in it, the value that it has to read as, and where it is."""
    tried = set()
    schema = {"$ref": f"#/$defs/{name}"}
    for made in largest(Instances(version, unstable).of(name)):
        for path, field in marked(version, unstable, schema, made):
            place = kinds(made, path)
            if place in tried:
                continue
            tried.add(place)
            for value in wrong(version, unstable, field) if DEFAULT in field else ():
                yield replaced(made, path, value), replaced(made, path), path
            given = at(made, path)
            if SKIP in field and isinstance(given, list):
                yield replaced(made, path, [7, *given, None]), made, path


def readable() -> list[tuple[int, bool, str]]:
    return [
        (version, unstable, name)
        for version, unstable in SCHEMAS
        for name in READERS
        if name in _schema(version, unstable)["$defs"]
        # The same in all four, and large: one is enough.
        if name != "RequestPermissionRequest" or (version, unstable) == (1, False)
    ]


@pytest.mark.parametrize(("version", "unstable", "name"), readable())
def test_what_does_not_fit_reads_as_if_it_were_not_there(
    version: int, unstable: bool, name: str
) -> None:
    tried, differs = 0, []
    for broken, meant, path in cases(version, unstable, name):
        tried += 1
        if outcome(name, version, broken) != outcome(name, version, meant):
            differs.append((path, broken))
    assert tried
    assert not differs, [path for path, _ in differs]
