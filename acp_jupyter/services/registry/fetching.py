"""Fetching over HTTPS: the registry, and archives of agents.

Only https, or this very machine, also after a redirection; sizes and times are bounded. Proxies
and certificates are those of the environment.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, Any, Final
from urllib.parse import urlsplit

from ...errors import ACPError, UsageError
from .catalogue import ADDRESS, LARGEST, Fetched, cache_file, read_cache
from .model import LOOPBACK, Registry, check_address, parse_registry
from .places import write_private

SILENCE: Final = 30.0
"""Seconds that a server may be silent."""

REGISTRY_TIME: Final = 60.0
DOWNLOAD_TIME: Final = 1800.0
"""Seconds for all of a registry, and of an agent: a slow line has an hour's third for 200 MB."""

CHUNK: Final = 2**18

REDIRECTIONS: Final = 5


class CannotFetch(ACPError):
    """Something could not be fetched."""


@dataclass(frozen=True, slots=True)
class Update:
    """What came of fetching the registry.

    Attributes:
        registry: as it is now.
        changed: it is another one than before.
    """

    registry: Registry
    changed: bool


def update(address: str = "") -> Update:
    """Fetch the registry and keep it.

    Args:
        address: of the registry; the official one if it is empty.

    Raises:
        CannotFetch: the network says no; what was known is used as before.
        UsageError: the address cannot be, or what is there is no registry.
    """
    address = address or ADDRESS
    try:
        known = read_cache()
    except UsageError:
        known = None  # it is replaced
    known = known if known is not None and known.url == address else None
    etag = known.etag if known is not None else ""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    with _open(address, {"If-None-Match": etag} if etag else {}) as answer:
        if answer.status == 304 and known is not None:
            fetched = Fetched(address, known.etag, now, known.document)
        else:
            document = _decoded(b"".join(_chunks(answer, LARGEST, REGISTRY_TIME, _go_on)), address)
            fetched = Fetched(address, answer.headers.get("ETag", "")[:200], now, document)
    registry = parse_registry(fetched.document)
    try:
        write_private(cache_file(), fetched.as_json())
    except OSError as error:
        raise UsageError(f"{cache_file()} cannot be written: {error.strerror}") from error
    return Update(registry, known is None or known.document != fetched.document)


def download(
    address: str,
    target: IO[bytes],
    *,
    limit: int,
    stopped: Callable[[], bool],
    seconds: float = DOWNLOAD_TIME,
) -> str:
    """Fetch a file; returns its SHA-256 in hexadecimal digits.

    Args:
        address: of the file.
        target: gets it.
        limit: bytes that it may have.
        stopped: tells, now and then, that it is not wanted any more.
        seconds: for all of it.

    Raises:
        CannotFetch: it could not be fetched, or not all of it.
        UsageError: nothing is fetched from there.
    """
    digest = hashlib.sha256()
    with _open(address, {}) as answer:
        for chunk in _chunks(answer, limit, seconds, stopped):
            digest.update(chunk)
            target.write(chunk)
    return digest.hexdigest()


def _go_on() -> bool:
    return False


@contextmanager
def _open(address: str, headers: Mapping[str, str]) -> Iterator[http.client.HTTPResponse]:
    """Ask for an address; errors of the network become ours, also while it is read."""
    check_address(address)
    where = urlsplit(address).hostname or address
    request = urllib.request.Request(  # noqa: S310  # check_address has held the scheme
        address, headers={"User-Agent": "acp-jupyter", "Accept-Encoding": "identity", **headers}
    )
    try:
        try:
            answer = _opener(address).open(request, timeout=SILENCE)
        except urllib.error.HTTPError as error:
            if error.code != 304:
                error.close()
                raise CannotFetch(
                    f"{where} answered {error.code} to {address}", remedy=_REMEDY
                ) from error
            answer = error
        with answer:
            yield answer
    except urllib.error.URLError as error:
        raise CannotFetch(f"{where} cannot be reached: {error.reason}", remedy=_REMEDY) from error
    except (OSError, http.client.HTTPException) as error:
        raise CannotFetch(f"{where} stopped answering: {error}", remedy=_REMEDY) from error


_REMEDY: Final = "Look whether there is a network, and try again."


def _chunks(
    answer: http.client.HTTPResponse, limit: int, seconds: float, stopped: Callable[[], bool]
) -> Iterator[bytes]:
    """The body, bounded in bytes and seconds, and complete."""
    announced = answer.headers.get("Content-Length", "")
    too_large = CannotFetch(f"what was asked for has more than {limit:,} bytes")
    if announced.isascii() and announced.isdigit() and int(announced) > limit:
        raise too_large
    begun, size = time.monotonic(), 0
    while chunk := answer.read1(CHUNK):
        size += len(chunk)
        if size > limit:
            raise too_large
        if stopped():
            raise CannotFetch("it was given up")
        if time.monotonic() - begun > seconds:
            raise CannotFetch(f"it took more than {seconds:.0f} seconds", remedy=_REMEDY)
        yield chunk
    if announced.isascii() and announced.isdigit() and size != int(announced):
        raise CannotFetch(
            f"only {size:,} of {int(announced):,} bytes came through", remedy="Try again."
        )


def _decoded(data: bytes, address: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"what {address} answers is no JSON", remedy="Check the address of the registry."
        ) from error


class _Redirections(urllib.request.HTTPRedirectHandler):
    max_redirections = REDIRECTIONS

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        check_address(newurl)
        if urlsplit(newurl).scheme != urlsplit(req.full_url).scheme:
            raise UsageError(
                f"{req.full_url[:200]} leads to {newurl[:200]}, which is less safe",
                remedy="Use an address that begins with https://.",
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener(address: str) -> urllib.request.OpenerDirector:
    """HTTP and HTTPS only: no files, no FTP. What is on this machine needs no proxy."""
    local = urlsplit(address).hostname in LOOPBACK
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler({} if local else None),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _Redirections(),
    ):
        opener.add_handler(handler)
    return opener
