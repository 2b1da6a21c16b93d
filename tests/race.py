"""The race of F32: an agent reads, writes and runs commands below names that are directories or
files at one moment and links to what is outside at the next.

    python -m tests.race --seconds 300

Not one byte may be read or written outside: what is there holds a canary that must come out
nowhere, and is compared with what it was, names, modes, times and contents. The requests go to the
services that serve an agent, both ways of opening in turn. Linux only.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import trio

from acp_jupyter.errors import Refusal
from acp_jupyter.services import roots as roots_module
from acp_jupyter.services.files import FileService
from acp_jupyter.services.local_files import LocalFiles
from acp_jupyter.services.roots import Roots, openat2, walk
from acp_jupyter.services.terminals import TerminalService
from tests.swapper import swapping

CANARY = "outside-4711"
INSIDE = "inside-0815"

PAIRS = {
    "sub": "outside",
    "deep": "outside",
    "leaf.txt": "outside/a.txt",
    "own.txt": "outside/a.txt",
}
"""What is swapped: names in the root, and where in the place the links beside them lead."""

READ = ("sub/a.txt", "deep/inner/a.txt", "leaf.txt", "own.txt")
WRITTEN = ("sub/made.txt", "sub/new/dir/made.txt", "deep/inner/a.txt", "own.txt")


class Race:
    """One race in a directory of its own.

    Attributes:
        counts: by operation and outcome: ("read", "served"), ("write", "refused"), ….
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        self.root = place / "root"
        self.counts: Counter[tuple[str, str]] = Counter()
        self._make()
        self._before = self._outside()

    def _make(self) -> None:
        for folder in ("root/sub", "root/deep/inner", "outside/inner"):
            (self.place / folder).mkdir(parents=True)
        for file in ("sub/a.txt", "deep/inner/a.txt", "leaf.txt", "own.txt"):
            (self.root / file).write_text(INSIDE)
        for file in ("a.txt", "inner/a.txt", "made.txt"):
            (self.place / "outside" / file).write_text(CANARY)
        for name, target in PAIRS.items():
            self._link(name).symlink_to(self.place / target)

    def _link(self, name: str) -> Path:
        return self.root / f"link-{name}"

    def _outside(self) -> dict[str, tuple[object, ...]]:
        found: dict[str, tuple[object, ...]] = {}
        for path in sorted([self.place / "outside", *(self.place / "outside").rglob("*")]):
            state = path.lstat()
            text = path.read_text() if path.is_file() else ""
            facts = (state.st_ino, state.st_mode, state.st_nlink, state.st_size, state.st_mtime_ns)
            found[str(path)] = (*facts, text)
        return found

    async def run(self, seconds: float) -> None:
        """Race; then nothing outside has changed."""
        roots = Roots([str(self.root)])
        with ExitStack() as swappers:
            for name in PAIRS:
                swappers.enter_context(swapping(self.root / name, self._link(name)))
            async with trio.open_nursery() as nursery:
                files = FileService(LocalFiles(roots), observe=lambda _event: None)
                terminals = TerminalService(
                    roots,
                    {"PATH": os.environ["PATH"]},
                    ask=_yes,
                    nursery=nursery,
                    on_change=lambda _view: None,
                )
                end = trio.current_time() + seconds
                async with trio.open_nursery() as racers:
                    for name in READ:
                        racers.start_soon(self._repeat, "read", end, self._reader(files, name))
                    for name in WRITTEN:
                        racers.start_soon(self._repeat, "write", end, self._writer(files, name))
                    racers.start_soon(self._repeat, "command", end, self._runner(terminals))
                await terminals.aclose()
        assert self._outside() == self._before, "something outside was changed"

    async def _repeat(self, what: str, end: float, once: Callable[[], Awaitable[str]]) -> None:
        while trio.current_time() < end:
            try:
                text = await once()
            except Refusal as refusal:
                text = refusal.message
                self.counts[what, "refused"] += 1
            else:
                self.counts[what, "served"] += 1
            assert CANARY not in text, f"{what} has read outside: {text}"

    def _params(self, name: str, **more: Any) -> dict[str, Any]:
        return {"sessionId": "s", "path": str(self.root / name), **more}

    def _reader(self, files: FileService, name: str) -> Callable[[], Awaitable[str]]:
        async def read() -> str:
            text: str = (await files.read_text_file(self._params(name)))["content"]
            assert text == INSIDE, f"{name}: {text!r}"
            return text

        return read

    def _writer(self, files: FileService, name: str) -> Callable[[], Awaitable[str]]:
        async def write() -> str:
            await files.write_text_file(self._params(name, content=INSIDE))
            if name == "own.txt":
                self._link_again(name)
            return ""

        return write

    def _link_again(self, name: str) -> None:
        """A write puts a file in place of the name; where that was the link, there is no race."""
        link, new = self._link(name), self.root / "new-link"
        if not link.is_symlink() and not (self.root / name).is_symlink():
            new.symlink_to(self.place / PAIRS[name])
            new.rename(link)

    def _runner(self, terminals: TerminalService) -> Callable[[], Awaitable[str]]:
        async def run() -> str:
            cwd = str(self.root / "sub")
            given = {"sessionId": "s", "command": "cat", "args": ["a.txt"], "cwd": cwd}
            made = {"sessionId": "s", **await terminals.create(given)}
            await terminals.wait_for_exit(made)
            text: str = (await terminals.output(made))["output"]
            await terminals.release(made)
            assert text == INSIDE, f"{cwd}: {text!r}"
            return text

        return run


async def _yes(_request: object) -> bool:
    return True


def ways_here() -> list[Any]:
    """The ways of opening that this system has."""
    return [walk, openat2] if roots_module._opener() is openat2 else [walk]


def race(seconds: float, place: Path, ways: list[Any]) -> dict[str, Counter[tuple[str, str]]]:
    """Race with each way of opening for its part of the time; the counts by its name."""
    found = {}
    for way in ways:
        (folder := place / way.__name__).mkdir()
        with patch.object(roots_module, "_opener", lambda way=way: way):
            made = Race(folder)
            trio.run(made.run, seconds / len(ways))
        found[way.__name__] = made.counts
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Race swapped links against an agent's requests.")
    parser.add_argument("--seconds", type=float, default=300.0)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as place:
        for way, counts in race(seconds, Path(place), ways_here()).items():
            for (what, outcome), count in sorted(counts.items()):
                print(f"{way:8} {what:8} {outcome:8} {count:9,}")
    print("Nothing outside was read or written.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
