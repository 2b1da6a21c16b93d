"""Files through the contents API of a Jupyter server: for whatever keeps them.

Rules are those of `files`: text as it is, bounds, lines, and no write over what the agent has not
seen. The API knows neither windows nor conditions, so

- a file is asked for its size first, and of a large one (up to `FETCH_LIMIT`) lines are taken here;
- before a write, what is there is read once more and compared. Between that and the write another
  program may still slip in: no more can be had from the API;
- missing directories are made first (a server answers 500 for a file without one).

Notebooks are read and written as notebooks, so that the contents manager may keep them as it likes;
as text they have the form of nbformat, without the marks of trust.

What a path of the API leads to is the contents manager's affair: it may follow a link out of the
folder. Hence files on this machine's disk are not read through it, see `files_routed`.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any, Final

import msgspec
import trio

from ..errors import ErrorCode, Refusal
from .files import (
    ABSENT,
    WHOLE_LIMIT,
    WINDOW_LIMIT,
    Changed,
    Content,
    NotText,
    Version,
    read_window,
    slices,
    too_large,
)
from .jupyter_server import Answer, JupyterServer
from .notebooks import for_api, is_notebook, notebook_text
from .roots import Located, Roots

__all__ = ["ContentsFiles", "modified_ns"]

FETCH_LIMIT: Final = 64 * 2**20
"""Bytes of a file of which lines are read: it comes over whole."""

ESCAPED: Final = 6
"""Bytes that one byte of text takes at most as JSON."""

SLACK: Final = 2**16
"""Bytes of an answer beside the content."""


class ContentsFiles:
    """Files of a server, below the session's roots.

    Args:
        roots: the session's.
        server: who has the files.
    """

    def __init__(self, roots: Roots, server: JupyterServer) -> None:
        self.roots = roots
        self._server = server

    def locate(self, path: object) -> Located:
        return self.roots.locate(path)

    async def read(
        self, located: Located, *, line: int | None = None, limit: int | None = None
    ) -> Content:
        model = await self._model(located)
        if model is None:
            raise _missing(located)
        windowed = line is not None or limit is not None
        size = _size(model)
        if size > (FETCH_LIMIT if windowed else WHOLE_LIMIT):
            raise NotText(too_large(size))
        data, model = await self._content(located, model, FETCH_LIMIT if windowed else WHOLE_LIMIT)
        version = Version(modified_ns(model), len(data), hashlib.sha256(data).digest())
        if windowed:
            largest = WHOLE_LIMIT if len(data) <= WHOLE_LIMIT else WINDOW_LIMIT
            window = read_window(slices(data), line or 1, limit, largest)
            if window is None:
                raise NotText(too_large(len(data)))
            data = window
        return Content(data.decode(), version)

    async def write(self, located: Located, text: str, *, expected: Version | None) -> Version:
        try:
            data = text.encode()
        except UnicodeEncodeError as error:
            raise Refusal(
                "content is not valid Unicode text: it holds half of a surrogate pair"
            ) from error
        model = await self._model(located)
        await self._compare(located, model, expected)
        if model is None:
            await self._make_parents(located)
        elif model.get("writable") is False:
            raise Refusal(f"permission denied: {located.path}")
        body: dict[str, Any] = {"type": "file", "format": "text", "content": text}
        if is_notebook(located.resolved):
            notebook, data = await trio.to_thread.run_sync(_notebook, data)
            body = {"type": "notebook", "format": "json", "content": notebook}
        answer = await self._server.request("PUT", self._api(located), body=body)
        if answer.status not in (200, 201):
            raise _refused(answer, located)
        written = answer.body if type(answer.body) is dict else {}
        return Version(modified_ns(written), len(data), hashlib.sha256(data).digest())

    def _names(self, located: Located) -> list[str]:
        """The names below the server's directory."""
        below = located.resolved.removeprefix(self._server.info.root)
        return [name for name in below.split("/") if name]

    def _api(self, located: Located) -> str:
        return "/".join(["contents", *self._names(located)])

    async def _model(self, located: Located) -> dict[str, Any] | None:
        """What the server says of a file; ``None`` if there is none."""
        if located.resolved == self._server.info.root:
            raise Refusal(f"{located.path} is a directory")
        answer = await self._server.request("GET", self._api(located), query={"content": "0"})
        if answer.status == 404:
            return None
        if answer.status != 200 or type(answer.body) is not dict:
            raise _refused(answer, located)
        if answer.body.get("type") == "directory":
            raise Refusal(f"{located.path} is a directory")
        return answer.body

    async def _content(
        self, located: Located, model: dict[str, Any], largest: int
    ) -> tuple[bytes, dict[str, Any]]:
        """A file's bytes, valid UTF-8 without null characters, and its newest model."""
        kind = "notebook" if is_notebook(located.resolved) else "file"
        answer = await self._server.request(
            "GET",
            self._api(located),
            query={"content": "1", "type": kind},
            largest=ESCAPED * largest + SLACK,
        )
        if answer.status == 404:
            raise _missing(located)
        if answer.status == 400 and kind == "notebook":  # what is there is none: show it as it is
            answer = await self._server.request(
                "GET",
                self._api(located),
                query={"content": "1", "type": "file"},
                largest=ESCAPED * largest + SLACK,
            )
        body = answer.body
        if answer.status != 200 or type(body) is not dict:
            raise _refused(answer, located)
        data = await trio.to_thread.run_sync(_bytes_of, body, _size(model))
        if len(data) > largest:
            raise NotText(too_large(len(data)))
        return data, body

    async def _compare(
        self, located: Located, model: dict[str, Any] | None, expected: Version | None
    ) -> None:
        """Hold what is there against what the agent saw."""
        if expected is None:
            return
        if model is None:
            if not expected.matches(ABSENT):
                raise Changed("was deleted")
            return
        if expected.digest is None or expected.matches(ABSENT):
            if not expected.matches(Version(modified_ns(model), _size(model))):
                raise Changed
            return
        try:
            data, _ = await self._content(located, model, FETCH_LIMIT)
        except NotText:
            raise Changed from None
        if hashlib.sha256(data).digest() != expected.digest:
            raise Changed

    async def _make_parents(self, located: Located) -> None:
        names = self._names(located)[:-1]
        missing = []
        while names:
            path = "/".join(["contents", *names])
            answer = await self._server.request("GET", path, query={"content": "0"})
            if answer.status == 200:  # and so are those above it
                break
            missing.append(path)
            names.pop()
        for path in reversed(missing):
            answer = await self._server.request("PUT", path, body={"type": "directory"})
            if answer.status not in (200, 201):
                raise _refused(answer, located)


def modified_ns(model: dict[str, Any], name: str = "last_modified") -> int:
    """A time of a model in nanoseconds since 1970; 0 if it has none."""
    value = model.get(name)
    try:
        at = datetime.fromisoformat(value) if type(value) is str else None
        return 0 if at is None else round(at.timestamp() * 1_000_000) * 1000
    except (ValueError, OverflowError):
        return 0


def _size(model: dict[str, Any]) -> int:
    """Bytes; 0 where the server does not say, and only the answer's bound holds."""
    size = model.get("size")
    return size if type(size) is int else 0


def _bytes_of(model: dict[str, Any], size: int) -> bytes:
    content = model.get("content")
    if model.get("type") == "notebook" and type(content) is dict:
        return notebook_text(content).encode()
    if model.get("format") == "text" and type(content) is str and "\0" not in content:
        try:
            return content.encode()
        except UnicodeEncodeError:
            pass
    raise NotText(f"the file is not UTF-8 text. The file has {size} bytes")


def _notebook(data: bytes) -> tuple[Any, bytes]:
    """A notebook as the API takes it, and its text as it will be read."""
    text = notebook_text(_object(data))
    return for_api(text), text.encode()


def _object(data: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise Refusal("a notebook has to be valid JSON") from error


def _missing(located: Located) -> Refusal:
    return Refusal(f"Resource not found: {located.path}", code=ErrorCode.RESOURCE_NOT_FOUND)


def _refused(answer: Answer, located: Located) -> Refusal:
    """What the agent gets for an answer that is none; the server's own words may tell too much."""
    match answer.status:
        case 404:
            return _missing(located)
        case 400:
            return Refusal(f"the Jupyter server does not serve {located.path}: hidden, or no file")
        case 401 | 403:
            return Refusal(f"permission denied by the Jupyter server: {located.path}")
        case 413 | 507:
            return Refusal(f"{located.path} is too large for the Jupyter server")
        case status:
            return Refusal(
                f"the Jupyter server answered {status} for {located.path}",
                code=ErrorCode.INTERNAL_ERROR,
            )
