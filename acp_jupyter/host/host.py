"""The notebook process as the host of agents: what the agent kernel and the extension share.

A `Host` owns the portal, the settings and the links to agents. It imports trio and what rests on
it only when the first agent is needed, so that a kernel starts as fast as one without us.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..connection.portal import Portal
from ..errors import ACPError, UsageError
from ..session.limits import NO_LIMITS, Limits, Spent
from .frontend import Frontend, Launch, choose, read_launch
from .interrupts import Interrupts
from .link import Link

if TYPE_CHECKING:
    from ..questions.comms import CommTap
    from ..services.agents import AgentSpec
    from ..services.consents import Consents
    from ..services.last_sessions import LastSessions
    from ..services.open_documents import OpenDocuments
    from ..services.policy import Policy
    from ..services.workplace import KernelServer
    from ..session.attachments import Prompt
    from .asking import Asked
    from .displays import Displays
    from .history import CellSource
    from .installing import Installing
    from .live import Live
    from .main_thread import MainThread
    from .mentions import PictureFolder
    from .recordings import Recordings
    from .report import Reporter
    from .settings import ACPJupyter
    from .sharing import KernelShare
    from .terminals import Terminals

SHUTDOWN_LIMIT: Final = 2.0
"""Seconds for all agents to end when the kernel does; Jupyter kills it after 5."""


class Host:
    """See the module.

    Args:
        kernel: the running IPython kernel; ``None`` in a script.
        tap: where clicks arrive; ``None`` where the kernel's version is unknown to it.
        environ: the process's environment.

    Attributes:
        interrupts: who gets SIGINT.
        links: by the name the user gave with ``--as``; the one without a name is "".
        live: the connection to frontends, if a surface has made it.
        asked: the client's own questions that wait for the user, oldest first.
        spent: what the turns of all links have taken.
    """

    def __init__(self, kernel: Any, tap: CommTap | None, environ: Mapping[str, str]) -> None:
        self.kernel = kernel
        self.tap = tap
        self.environ = environ
        self.portal = Portal()
        self.interrupts = Interrupts(kernel)
        self.links: dict[str, Link] = {}
        self.live: Live | None = None
        self.asked: list[Asked] = []
        self.spent = Spent()
        self._keys = count(1)
        self._anonymous: list[Link] = []
        self._policy: Policy | None = None

    def link(self, name: str = "") -> Link:
        """The link of that name, made if it is not there."""
        if name not in self.links:
            self.links[name] = Link(self, self._next_key(), name=name)
        return self.links[name]

    def new_link(self, *, quiet: bool) -> Link:
        """A link without a name, for a handle of the Python API."""
        link = Link(self, self._next_key(), quiet=quiet)
        self._anonymous.append(link)
        return link

    def drop(self, link: Link) -> None:
        """Forget a link made by `new_link`."""
        if link in self._anonymous:
            self._anonymous.remove(link)
            self.portal.run_soon(self.touch)

    def documents(self) -> OpenDocuments | None:
        """What is open in the pages of this notebook's frontends; on the trio thread."""
        return None if self.live is None else self.live.documents()

    def touch(self) -> None:
        """Something about an agent may have changed; on the trio thread."""
        if self.live is not None:
            self.live.touch()

    def _next_key(self) -> str:
        return f"link-{next(self._keys)}"

    @cached_property
    def displays(self) -> Displays:
        """What cells displayed; asked for first where the shell is known, when it is installed."""
        from .displays import Displays

        return Displays(self.kernel.shell)

    @cached_property
    def pictures(self) -> PictureFolder:
        """Where pictures go that an agent only takes as links."""
        from .mentions import PictureFolder

        return PictureFolder()

    @cached_property
    def terminals(self) -> Terminals:
        """The commands that agents run, for their user."""
        from .terminals import Terminals

        return Terminals(self)

    def gather(
        self,
        text: str,
        attach: Sequence[object] = (),
        *,
        namespace: Mapping[str, Any],
        cwd: str,
        running: bool = True,
    ) -> Prompt:
        """A prompt with what it mentions; on the thread that runs the user's code.

        Args:
            text: the prompt as written.
            attach: names, paths or objects that go with it unmentioned.
            namespace: variables by name.
            cwd: what relative paths start from; nothing outside of it is attached.
            running: the cell that asks is in the shell's history, as those that IPython runs are.

        Raises:
            UsageError: something mentioned does not exist, or may not be sent.
        """
        from ..session.attachments import Prompt

        if "@" not in text and not attach:
            return Prompt(text)
        from ..services.roots import Roots
        from .history import NoCells, ShellCells
        from .mentions import Resolver

        shell = getattr(self.kernel, "shell", None)
        cells: CellSource = NoCells()
        if shell is not None:
            cells = ShellCells(shell, running=running, displays=self.displays)
        resolver = Resolver(namespace, cells, cwd, Roots([cwd]))
        return Prompt(text, resolver.gather(text, attach))

    def complete(self, text_before_cursor: str) -> tuple[int, list[str]]:
        """What fits a mention that is being typed: variables, files and cells.

        Returns:
            Where the text begins that a match replaces, and the matches; none outside a mention.
        """
        if "@" not in text_before_cursor:
            return len(text_before_cursor), []
        from ..session.attachments import complete_mention
        from .history import ShellCells
        from .mentions import typed_path_matches

        shell = self.kernel.shell
        session = self.link().session
        cwd = session.cwd if session is not None else self.cwd
        return complete_mention(
            text_before_cursor,
            # A copy first: a cell may run beside this, and make variables.
            names=[name for name in list(shell.user_ns) if name not in shell.user_ns_hidden],
            paths=typed_path_matches(cwd, text_before_cursor),
            cells=ShellCells(shell, running=False).count,
        )

    @cached_property
    def settings(self) -> ACPJupyter:
        """Read at first use.

        Raises:
            UsageError: they cannot be understood.
        """
        from .settings import ACPJupyter

        return ACPJupyter.load(self.environ)

    @cached_property
    def caps(self) -> Limits:
        """What all links together may take, as the program that runs the notebook says.

        Raises:
            UsageError: that cannot be understood.
        """
        from .report import BUDGET, budget

        given = self.environ.get(BUDGET)
        return budget(given) if given else NO_LIMITS

    @cached_property
    def reporter(self) -> Reporter | None:
        """Tells the program that runs the notebook what happens, if it asks for that."""
        if self.kernel is None or not self.environ.get("ACP_JUPYTER_RUN"):
            return None
        from .report import Reporter

        return Reporter(self.kernel)

    @cached_property
    def launch(self) -> Launch:
        return read_launch(self.environ)

    @cached_property
    def kernel_server(self) -> KernelServer | None:
        """The Jupyter server that started the kernel; ``None`` in a script."""
        if self.kernel is None:
            return None
        from ipykernel.connect import get_connection_file

        from ..services.jupyter_server import kernel_id
        from ..services.workplace import KernelServer

        try:
            ident = kernel_id(get_connection_file())
        except RuntimeError:  # a kernel within another program has no file
            ident = ""
        return KernelServer(self.environ, ident)

    def frontend(self, *, allow_stdin: bool) -> Frontend:
        """The frontend of the cell that runs."""
        frontend = choose(self.launch, allow_stdin=allow_stdin)
        if self.tap is None:
            asks = tuple(ask for ask in frontend.ask if ask != "widgets")
            return Frontend(frontend.publish, asks)
        return frontend

    @property
    def policy(self) -> Policy:
        """The permission policy."""
        return self._policy or self.settings.policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self._policy = policy

    @property
    def cwd(self) -> str:
        """The notebook's folder, which a server makes the kernel's working directory."""
        return os.path.realpath(os.getcwd())

    @cached_property
    def recordings(self) -> Recordings:
        """What is recorded, and replayed."""
        from .recordings import Recordings, notebook_of

        notebook = notebook_of(self.environ, by_server=self.launch.by_server)
        return Recordings(self.environ, notebook)

    @cached_property
    def last_sessions(self) -> LastSessions:
        """Which sessions the notebook used last; of its folder, where it is not known."""
        from jupyter_core.paths import jupyter_data_dir

        from ..services.last_sessions import LastSessions
        from .recordings import notebook_of

        notebook = notebook_of(self.environ, by_server=self.launch.by_server)
        folder = Path(jupyter_data_dir(), "acp-jupyter", "sessions")
        return LastSessions(folder, notebook or Path(self.cwd))

    @cached_property
    def main_thread(self) -> MainThread:
        """Calls what has to be done where the notebook's code runs; only in a kernel."""
        from .main_thread import MainThread

        return MainThread(self.kernel, self.portal)

    def serve_waiting(self) -> None:
        """Called on a thread that waits for trio's: what waits for the main thread is done."""
        if "main_thread" in self.__dict__ and threading.current_thread() is threading.main_thread():
            self.main_thread.serve()

    @cached_property
    def kernel_share(self) -> KernelShare:
        """What the kernel offers to agents."""
        from .sharing import KernelShare

        return KernelShare(self)

    @cached_property
    def mcp_consents(self) -> Consents:
        """Which MCP servers of files the user has allowed."""
        from ..services.consents import MCP_SERVERS, Consents

        return Consents(MCP_SERVERS)

    @cached_property
    def installing(self) -> Installing:
        """Gets agents of the registry ready to be started."""
        from .installing import Installing

        return Installing(self)

    def default_agent(self) -> AgentSpec:
        """The agent to connect where no connect was run.

        Raises:
            UsageError: none is configured, or nobody knows it.
        """
        from ..services.agents import from_text

        if self.environ.get("ACP_JUPYTER_REPLAY"):
            return self.recordings.replay_of(None)
        if not self.settings.agent:
            raise UsageError(
                "no agent is connected",
                remedy="Run `%acp connect demo` for the bundled agent, or "
                "`%acp connect -- COMMAND ARGUMENT…` for any other one.",
            )
        spec = from_text(self.settings.agent, self.settings.agents, self.settings.registry)
        return self.settings.asked(spec)

    def agent_named(self, name: str) -> AgentSpec:
        """The agent of that name.

        Raises:
            UsageError: nobody knows it.
        """
        from ..services.agents import REPLAY, from_name

        if self.environ.get("ACP_JUPYTER_REPLAY"):  # it need not be installed here
            return self.recordings.replay_of(None if name.startswith(REPLAY) else name)
        spec = from_name(name, self.settings.agents, self.settings.registry)
        return self.settings.asked(spec)

    def agent_of(self, text: str) -> AgentSpec:
        """The agent given by a name, a recording or a command line.

        Raises:
            UsageError: it is none of them.
        """
        from ..services.agents import REPLAY, from_text

        if not self.environ.get("ACP_JUPYTER_REPLAY"):
            spec = from_text(text, self.settings.agents, self.settings.registry)
            return self.settings.asked(spec)
        try:
            name = from_text(text, self.settings.agents, self.settings.registry).name
        except UsageError:
            name = text
        return self.agent_named(text if text.startswith(REPLAY) else name)

    def interrupt(self) -> bool:
        """Stop what runs for a cell, see `Link.interrupt`; from any thread."""
        stopped = [link.interrupt() for link in self.all_links()]
        return any(stopped)

    def close(self) -> None:
        """End all agents, the trio thread and the connection to frontends."""
        if self.live is not None:
            self.live.close()
            self.live = None
        if "pictures" in self.__dict__:
            self.pictures.close()
        if not self.portal.running:
            return
        jobs = [
            self.portal.submit(link.client.shutdown)
            for link in self.all_links()
            if link.client is not None and not link.client.closed
        ]
        for job in jobs:
            try:
                job.result(SHUTDOWN_LIMIT)
            except (TimeoutError, ACPError):
                pass  # stopping the portal cancels it, and the guard ends the processes
        self.portal.stop()
        for link in self.all_links():
            if link.isolated is not None:
                from .isolation import settle

                settle(link.isolated)

    def all_links(self) -> list[Link]:
        """Those with names, then those of the Python API."""
        return [*self.links.values(), *self._anonymous]
