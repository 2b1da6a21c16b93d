"""The agent's files through a Jupyter server, against the bare contents API and the disk.

The server keeps its files in memory, so what is measured is the way and not a disk. Each file is
text in lines; a write replaces one that the agent has read, as a careful one does.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import trio

from acp_jupyter.services.files import FileService
from acp_jupyter.services.files_routed import RoutedFiles, ServedDirectories
from acp_jupyter.services.jupyter_server import JupyterServer
from acp_jupyter.services.local_files import LocalFiles
from acp_jupyter.services.roots import Roots
from tests.bench.goals import Row, median_ratio
from tests.browser.server import JupyterServer as TestServer
from tests.contents_servers import contents_server, info_of

SIZES = {"1k": 1_000, "1m": 1_000_000, "10m": 10_000_000}
REPEATS = {"1k": 20, "1m": 5, "10m": 1}
"""How often each is done in one run: the small ones take a few milliseconds."""


def files(runs: int) -> Iterator[Row]:
    """Reads and writes of each size, the ways in turn."""
    with TemporaryDirectory(prefix="bench-files-") as directory:
        home = Path(directory)
        (home / "disk").mkdir()
        (home / "server").mkdir()
        with contents_server("memory", home / "server") as server:
            for size, count in SIZES.items():
                yield from _rows(runs, size, _Ways(server, home / "disk", count))


class _Ways:
    """The ways to read and to write one file."""

    def __init__(self, server: TestServer, disk: Path, count: int) -> None:
        self.text = ("x" * 79 + "\n") * (count // 80 + 1)
        self.text = self.text[:count]
        self._server = server
        self._disk = disk / "file.txt"
        info = info_of(server)
        remote = RoutedFiles(
            Roots([info.root]), ServedDirectories(JupyterServer(info)), lambda _text: None
        )
        self._ours = FileService(remote, observe=lambda _event: None)
        self._path = f"{info.root}/file.txt"
        self._direct = FileService(LocalFiles(Roots([str(disk)])), observe=lambda _event: None)
        self.bare_write()
        self._disk.write_text(self.text, encoding="utf-8")

    async def read(self) -> None:
        answer = await self._ours.read_text_file({"path": self._path})
        assert len(answer["content"]) == len(self.text)

    async def write(self) -> None:
        await self._ours.write_text_file({"path": self._path, "content": self.text})

    async def disk_read(self) -> None:
        await self._direct.read_text_file({"path": str(self._disk)})

    async def disk_write(self) -> None:
        await self._direct.write_text_file({"path": str(self._disk), "content": self.text})

    def bare_read(self) -> None:
        model = self._server.request("GET", "api/contents/file.txt?type=file&content=1")
        assert len(model["content"]) == len(self.text)

    def bare_write(self) -> None:
        model = {"type": "file", "format": "text", "content": self.text}
        self._server.request("PUT", "api/contents/file.txt", model)


def _rows(runs: int, size: str, ways: _Ways) -> Iterator[Row]:
    repeats = REPEATS[size]
    for what in ("read", "write"):
        ours: list[float] = []
        bare: list[float] = []
        disk: list[float] = []
        for _ in range(runs + 1):  # the first one warms up
            ours.append(trio.run(_timed, getattr(ways, what), repeats))
            bare.append(_timed_plainly(getattr(ways, f"bare_{what}"), repeats))
            disk.append(trio.run(_timed, getattr(ways, f"disk_{what}"), repeats))
        shown = (f"{median(times[1:]) * 1000:.1f}" for times in (ours, bare, disk))
        note = "{} ms ÷ {} ms; {} ms on the disk".format(*shown)
        yield Row(f"files-{what}-{size}", median_ratio(ours[1:], bare[1:]), note)


async def _timed(act: Callable[[], Awaitable[None]], repeats: int) -> float:
    """Seconds for one of them."""
    begun = time.perf_counter()
    for _ in range(repeats):
        await act()
    return (time.perf_counter() - begun) / repeats


def _timed_plainly(act: Callable[[], None], repeats: int) -> float:
    begun = time.perf_counter()
    for _ in range(repeats):
        act()
    return (time.perf_counter() - begun) / repeats
