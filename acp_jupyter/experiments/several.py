"""Several agents asked the same in one cell: ``%%acp --agents a,b,c``.

The rules:

* Each agent is started for this cell, and works in a copy of the notebook's folder of its own. A
  copy in which nothing has changed is removed at once, any other one when the kernel ends: so what
  an agent did can be looked at, and taken over.
* While they work, only their questions are shown, under the name of the agent that asks. Then come
  their turns, one below the other in the order in which they were named, with what each changed.
* An interrupt stops them all. One that fails keeps none from its end; the cell fails afterwards.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..api.turn import Turn, last_turn
from ..errors import ACPError, TurnCancelled, UsageError
from ..rendering import changes
from ..rendering.elements import Safe, box, edged, el
from ..services.workspace import copies
from ..session.changes import Changes, FileChange

if TYPE_CHECKING:
    from ..connection.portal import PortalFuture
    from ..display import Bundle
    from ..display.output import Sink
    from ..host.cell import CellContext
    from ..host.host import Host
    from ..host.link import Link
    from ..services.agents import AgentSpec
    from ..session.attachments import Prompt
    from ..session.limits import Limits

MAX_AGENTS: Final = 8
"""Each is a process with a model behind it, and a copy of the folder."""

PREFIX: Final = "acp-agents-"

_HEAD: Final = Safe("margin-top:.6em;font-size:1.1em")


@dataclass(slots=True)
class Asked:
    """One of the agents.

    Attributes:
        name: as the user named it, with a number where it is named twice.
        place: its copy of the folder.
        failure: why it has no turn that ended.
        turn: also one that failed.
        changes: in its copy.
    """

    name: str
    spec: AgentSpec
    link: Link
    place: Path
    failure: ACPError | None = None
    turn: Turn | None = None
    changes: list[FileChange] = field(default_factory=list)


class Labelled:
    """A cell's output in which each new display stands under a name."""

    def __init__(self, sink: Sink, name: str) -> None:
        self._sink = sink
        self._name = name

    def display(
        self, data: Bundle, *, display_id: str, update: bool, metadata: Bundle | None = None
    ) -> None:
        if not update:
            self._sink.show(_heading(f"{self._name}:"))
        self._sink.display(data, display_id=display_id, update=update, metadata=metadata)

    def show(self, data: Bundle) -> None:
        self._sink.show(_heading(f"{self._name}:"))
        self._sink.show(data)

    def stream(self, text: str) -> None:
        self._sink.stream(f"{self._name}: {text}")


def _heading(text: str) -> dict[str, Any]:
    html = box(el("b", text), style=_HEAD)
    return {"text/html": str(html), "text/plain": text}


def read_names(given: str, host: Host) -> list[tuple[str, AgentSpec]]:
    """The agents of ``--agents a,b,c``: as `%acp connect` or its ``--as`` names them.

    Raises:
        UsageError: nobody knows one of them, or they are too few or too many.
    """
    names = [name.strip() for name in given.split(",") if name.strip()]
    if not 2 <= len(names) <= MAX_AGENTS:
        raise UsageError(
            f"--agents takes from 2 to {MAX_AGENTS} names, not {len(names)}",
            remedy="For example `--agents demo,claude-acp`.",
        )
    found = []
    for place, name in enumerate(names):
        link = host.links.get(name)
        agent = link.agent if link is not None else None
        spec = agent.spec if agent is not None else host.agent_named(name)
        number = names[: place + 1].count(name)
        found.append((f"{name} ({number})" if names.count(name) > 1 else name, spec))
    return found


def ask(
    host: Host,
    cell: CellContext,
    agents: Sequence[tuple[str, AgentSpec]],
    gather: Callable[[str], Prompt],
    limits: Limits,
    keep: Callable[[list[Turn]], None],
) -> None:
    """Ask all agents, show what they did, and end them.

    Args:
        host: of the notebook.
        cell: that runs.
        agents: from `read_names`.
        gather: the prompt with what it mentions, from a copy of the folder.
        limits: of each turn.
        keep: gets the turns, also where some have failed.

    Raises:
        TurnCancelled: it was interrupted.
        ACPError: some of them failed.
    """
    top = Path(tempfile.mkdtemp(prefix=PREFIX))
    asked: list[Asked] = []
    try:
        base = top / "before"
        copies.copy(Path(host.cwd), base)
        for number, (name, spec) in enumerate(agents, 1):
            place = top / str(number) / (os.path.basename(host.cwd) or "folder")
            copies.copy(base, place)
            asked.append(Asked(name, spec, _new_link(host, name), place))
        _run(host, cell, asked, [gather(os.fspath(each.place)) for each in asked], limits, base)
        keep([each.turn for each in asked if each.turn is not None])
    finally:
        for each in asked:
            _end(host, cell, each.link)
        _remove_unchanged(top, asked)
    _raise_failures(asked)


def _new_link(host: Host, name: str) -> Link:
    """A link that spends the notebook's budget."""
    link = host.new_link(quiet=True)
    link.label = name
    link.caps, link.spent = host.link().caps, host.link().spent
    return link


def _run(
    host: Host,
    cell: CellContext,
    asked: Sequence[Asked],
    prompts: Sequence[Prompt],
    limits: Limits,
    base: Path,
) -> None:
    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True
        for each in asked:
            each.link.interrupt()

    with host.interrupts.call(stop):
        jobs = [
            each.link.submit(
                replace(cell, sink=Labelled(cell.sink, each.name)), _turn, each, prompt, limits
            )
            for each, prompt in zip(asked, prompts, strict=True)
        ]
        if stopped:  # before there was anything to stop
            stop()
        for each, job in zip(asked, jobs, strict=True):
            _wait(host, each, job)
            each.changes = copies.changes(base, each.place)
            _show(cell, each)


async def _turn(cell: CellContext, each: Asked, prompt: Prompt, limits: Limits) -> None:
    session = await each.link.connect(cell, each.spec, os.fspath(each.place))
    try:
        await each.link.prompt_in(cell, session, prompt, limits)
    finally:
        if session.transcript.turn.number and each.link.agent is not None:
            each.turn = last_turn(each.link.agent, session)


def _wait(host: Host, each: Asked, job: PortalFuture[None]) -> None:
    try:
        host.portal.wait(job)
    except concurrent.futures.CancelledError:
        each.failure = TurnCancelled("it was interrupted")
    except ACPError as error:
        each.failure = error


def _show(cell: CellContext, each: Asked) -> None:
    """An agent's turn, and what it changed, under its name."""
    parts: list[Mapping[str, Any]] = [_heading(each.name)]
    if each.turn is not None:
        parts.append(each.turn._repr_mimebundle_())
    elif each.failure is not None:
        text = str(each.failure)
        parts.append(
            {"text/html": str(box(el("pre", text), style=edged("error"))), "text/plain": text}
        )
    parts.append(_changes(each))
    for data in parts:
        if cell.frontend.publish == "append":
            cell.sink.stream(data["text/plain"] + "\n")
        else:
            cell.sink.show(dict(data))


def _changes(each: Asked) -> dict[str, Any]:
    if not each.changes:
        text = "No file was changed."
        return {"text/html": str(box(text)), "text/plain": text}
    head = f"In {each.place}, kept until the kernel ends:"
    return changes.bundle(Changes(tuple(each.changes)), head)


def _end(host: Host, cell: CellContext, link: Link) -> None:
    if link.client is not None and not link.client.closed:
        link.call(cell, link.disconnect, exclusive=False)
    host.drop(link)


def _remove_unchanged(top: Path, asked: Sequence[Asked]) -> None:
    changed = [each for each in asked if each.changes]
    for each in asked:
        if each not in changed:
            shutil.rmtree(each.place.parent, ignore_errors=True)
    shutil.rmtree(top / "before", ignore_errors=True)
    if changed:
        atexit.register(shutil.rmtree, top, ignore_errors=True)
    else:
        shutil.rmtree(top, ignore_errors=True)


def _raise_failures(asked: Sequence[Asked]) -> None:
    failed = [each for each in asked if each.failure is not None]
    if not failed:
        return
    first = failed[0].failure
    assert first is not None
    if all(isinstance(each.failure, TurnCancelled) for each in failed):
        raise first
    names = ", ".join(each.name for each in failed)
    raise ACPError(f"{len(failed)} of {len(asked)} agents failed ({names}): {first}") from first
