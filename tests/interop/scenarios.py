"""What is done with each agent, through this package's Python API, and what came of it.

A cell of the matrix is one of:

- ``yes``: it worked, with in brackets how far the client took part: ``asked``, the agent asked for
  permission; ``client``, the client read or wrote the file, or ran the command.
- ``no``: it did not, and why.
- ``-``: the agent does not offer it, so it was not tried.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from PIL import Image

import acp_jupyter as acp
from acp_jupyter.api.agent import Agent, Session
from acp_jupyter.api.turn import Turn
from acp_jupyter.session.transcript import FilesEntry
from tests.interop.model_server import Model
from tests.interop.wanted import CONTENT, HELLO

LIMIT = 90.0
SECRET = "the-word-in-the-file"
NONE = "-"
NO_COMMANDS = "has no commands"
"""Said by an agent that runs none."""


class Bench:
    """One agent, what it works on, and the model that it asks.

    Args:
        argv, env: how to start it.
        folder: of its sessions.
        model: the scripted one.
        protocol: version to ask for.
        mode: in which it asks before it writes, where that is not its first one.
    """

    def __init__(
        self,
        argv: list[str],
        env: dict[str, str],
        folder: Path,
        model: Model,
        *,
        protocol: int = 1,
        mode: str = "",
    ) -> None:
        self._argv, self._env, self._protocol = argv, env, protocol
        self.folder = folder
        self.model = model
        self.mode = mode
        self.name = ""
        self.session_id = ""

    @contextlib.contextmanager
    def connected(self, permissions: str) -> Iterator[Agent]:
        with acp.connect(
            self._argv,
            cwd=self.folder,
            env=self._env,
            permissions=permissions,
            protocol=self._protocol,
        ) as agent:
            self.name = agent.name
            yield agent

    def session(self, agent: Agent) -> Session:
        session = agent.new_session()
        if self.mode:
            session.set_option("mode", self.mode)
        return session

    def path(self, name: str) -> Path:
        return self.folder / name


def _ask(session: Session, text: str, **more: Any) -> Turn:
    return session.prompt(text, timeout=LIMIT, **more)


def _how(session: Session) -> str:
    """How far the client took part in the last turn of a session that has no other."""
    turn = session.turns[-1]
    words = ["asked"] if turn.permissions else []
    files = [entry for entry in turn.entries if isinstance(entry, FilesEntry)]
    if files or session.terminals:
        words.append("client")
    return f" ({', '.join(words)})" if words else ""


def _why(turn: Turn) -> str:
    said = turn.error or turn.text or "it said nothing"
    calls = "; ".join(f"{call.title}: {call.status}" for call in turn.tool_calls)
    return f"no: {said[-160:]} {f'[{calls[:120]}]' if calls else ''}".strip()


def prompt(bench: Bench) -> str:
    with bench.connected("deny") as agent:
        session = agent.new_session()
        turn = _ask(session, "interop:hello")
        bench.session_id = session.id
    return "yes" if HELLO in turn.text else _why(turn)


def allow(bench: Bench) -> str:
    made = bench.path("allowed.txt")
    with bench.connected("allow") as agent:
        session = bench.session(agent)
        turn = _ask(session, f"interop:write {made}")
        how = _how(session)
    return f"yes{how}" if _is_written(made) else _why(turn)


def _is_written(path: Path) -> bool:
    return path.is_file() and path.read_text().strip() == CONTENT.strip()


def reject(bench: Bench) -> str:
    made = bench.path("rejected.txt")
    with bench.connected("deny") as agent:
        session = bench.session(agent)
        try:
            turn = _ask(session, f"interop:write {made}")
        except acp.ACPError:
            turn = session.turns[-1]
        how = _how(session)
    if made.exists():
        return "no: it writes without asking"
    return f"yes{how}" if how else _why(turn)


def read(bench: Bench) -> str:
    before = len(bench.model.results)
    with bench.connected("allow") as agent:
        session = agent.new_session()
        turn = _ask(session, f"interop:read {bench.path('notes.txt')}")
        how = _how(session)
    told = any(SECRET in text for text in [*bench.model.results[before:], turn.text])
    return f"yes{how}" if told else _why(turn)


def run(bench: Bench) -> str:
    with bench.connected("allow") as agent:
        session = bench.session(agent)
        turn = _ask(session, "interop:run")
        how = _how(session)
    if NO_COMMANDS in turn.text:
        return NONE
    return f"yes{how}" if bench.path("made-by-command").exists() else _why(turn)


def cancel(bench: Bench) -> str:
    with bench.connected("deny") as agent:
        session = agent.new_session()
        began: list[float] = []

        def stop() -> None:
            for _ in range(600):
                turn = session._live.transcript.turn if session._live.busy else None
                if turn is not None and turn.first_chunk is not None:
                    break
                time.sleep(0.05)
            time.sleep(0.5)
            began.append(time.monotonic())
            session.cancel()

        stopper = threading.Thread(target=stop)
        stopper.start()
        try:
            turn = _ask(session, "interop:slow")
        except acp.ACPError:
            turn = session.turns[-1]
        stopper.join()
        took = time.monotonic() - began[0]
        if turn.stop_reason != "cancelled":
            return f"no: {turn.stop_reason or turn.error}"
        after = _ask(session, "interop:hello")
    went_on = HELLO in after.text
    return f"yes ({took:.1f} s)" if went_on else f"no: the next prompt: {_why(after)[4:]}"


def load(bench: Bench) -> str:
    with bench.connected("deny") as agent:
        if not agent.capabilities.get("loadSession"):
            return NONE
        session = agent.load_session(bench.session_id)
        turn = _ask(session, "interop:hello")
    return "yes" if HELLO in turn.text else _why(turn)


def options(bench: Bench) -> str:
    with bench.connected("deny") as agent:
        session = agent.new_session()
        found = session.options
        if not found:
            return NONE
        changed = []
        for name in found:  # one may change what another can be
            option = next((o for o in session._live.options if o.id == name), None)
            others = [v.value for v in option.values if v.value != option.value] if option else []
            if others:
                session.set_option(name, others[0])
                if session.options[name] != others[0]:
                    return f"no: {name} is {session.options[name]!r} after it was set"
                changed.append(name)
    return f"yes ({', '.join(changed)})" if changed else f"yes (shown: {', '.join(found)})"


def image(bench: Bench) -> str:
    picture = Image.new("RGB", (8, 8), "red")
    with bench.connected("deny") as agent:
        if not agent.capabilities.get("promptCapabilities", {}).get("image"):
            return NONE
        turn = _ask(agent.new_session(), "interop:image", attach=[picture])
    return "yes" if "I see a picture." in turn.text else _why(turn)


SCENARIOS: dict[str, Callable[[Bench], str]] = {
    "prompt": prompt,
    "allow": allow,
    "reject": reject,
    "read": read,
    "run": run,
    "cancel": cancel,
    "load": load,
    "images": image,
    "options": options,
}
"""In the order of the matrix; the first opens the session that ``load`` loads. The last changes
settings that an agent may keep in its home."""


def run_all(bench: Bench) -> dict[str, str]:
    """The cells of one agent."""
    bench.path("notes.txt").write_text(f"{SECRET}\n")
    cells = {}
    for name, scenario in SCENARIOS.items():
        print(f"  {name}", file=sys.stderr, flush=True)
        try:
            cells[name] = scenario(bench)
        except (acp.ACPError, OSError) as error:
            cells[name] = f"no: {type(error).__name__}: {str(error)[:200]}"
    return cells
