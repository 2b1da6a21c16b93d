"""Getting an agent of the registry ready to be started, with the user's consent.

A program that is installed is started without a question: to run the cell is consent. What has to
be downloaded, and what a fetched registry calls in a way that this package does not know, is shown
in full and asked for once. Where nobody can answer, the answer is no, unless ``--yes`` or the
user's settings (`ACPJupyter.allow_agents`) say otherwise.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from ..errors import UsageError
from ..services.consents import AGENTS, Consents
from ..services.registry import binaries, choosing

if TYPE_CHECKING:
    from ..services.agents import AgentSpec
    from ..services.registry.choosing import Launch, Which
    from ..session.transcript import PermissionEntry
    from .cell import CellContext
    from .host import Host

DOWNLOAD_LIMIT: Final = 900.0
"""Seconds for an agent to get ready where nobody can interrupt, and npx or uvx downloads it."""

ALL: Final = "*"


class Installing:
    """See the module. One per host; on the trio thread.

    Args:
        host: of the notebook.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._consents = Consents(AGENTS)

    @cached_property
    def which(self) -> Which:
        return choosing.find_program(search_path(self._host.environ.get("PATH", os.defpath)))

    async def ready(
        self, cell: CellContext, spec: AgentSpec, limit: float | None, *, label: str = ""
    ) -> tuple[AgentSpec, float | None]:
        """An agent of the registry with its command, downloaded where that is needed.

        Args:
            cell: that runs.
            spec: with ``registry``.
            limit: seconds for it to get ready.
            label: stands before questions on standard input.

        Returns:
            How to start it, and the seconds that it may take then.

        Raises:
            UsageError: the user says no, nobody can be asked, or it cannot be had here.
            ACPError: the download failed.
        """
        import trio

        assert spec.registry is not None
        key = choosing.this_platform()
        launch = await trio.to_thread.run_sync(choosing.plan_launch, spec.registry, key, self.which)
        if launch.asks and not self._allowed(launch, spec):
            await self._ask(cell, launch, label)
        argv = launch.argv
        if launch.binary is not None:
            argv = (await self._download(cell, launch), *launch.binary.args)
        elif launch.way == "npx":
            choosing.make_npx_folder()
        if launch.downloads and limit is not None:
            limit = max(limit, DOWNLOAD_LIMIT)
        return replace(spec, argv=argv, env={**launch.env, **spec.env}, registry=None), limit

    def _allowed(self, launch: Launch, spec: AgentSpec) -> bool:
        named = {ALL, launch.agent.id, spec.name}
        if spec.unasked or not named.isdisjoint(self._host.settings.allow_agents):
            return True
        return self._consents.allowed(launch.identity)

    async def _ask(self, cell: CellContext, launch: Launch, label: str) -> None:
        from ..services.permissions import CannotAsk
        from .asking import Asking

        agent = launch.agent
        entry = question(launch)
        try:
            chosen = await Asking(self._host, cell, label=label).choose(entry)
        except CannotAsk as error:
            raise UsageError(
                f"{agent.id} would be {_verb(launch)} ({launch.source}), which needs your "
                f"consent, and nobody can be asked: {error}",
                remedy=f"Connect it once where you can answer, write `%acp connect {agent.id} "
                f"--yes`, or set c.ACPJupyter.allow_agents = [{agent.id!r}] in "
                "jupyter_acp_config.py.",
            ) from error
        kind = "reject_once" if chosen is None else entry.options[chosen].kind
        if not kind.startswith("allow"):
            raise UsageError(
                f"{agent.id} was not started: you did not allow it",
                remedy="Run the cell again to be asked again.",
            )
        words = f"{agent.id} {agent.version}, {launch.source}".replace("  ", " ")
        self._consents.allow(launch.identity, words, for_good=kind == "allow_always")

    async def _download(self, cell: CellContext, launch: Launch) -> str:
        """Bring the program here; returns its path."""
        import trio

        agent, binary = launch.agent, launch.binary
        assert binary is not None
        given_up: list[bool] = []
        found = binaries.installed(agent, binary)
        if found is not None:
            return str(found)
        cell.sink.stream(f"Downloading {agent.id} {agent.version} from {binary.url}\n")

        def install() -> str:
            return str(binaries.install(agent, binary, stopped=lambda: bool(given_up)))

        try:
            path = await trio.to_thread.run_sync(install, abandon_on_cancel=True)
        except trio.Cancelled:
            given_up.append(True)
            raise
        checked = "its checksum is right" if binary.sha256 else "there was no checksum to verify"
        cell.sink.stream(f"{agent.id} {agent.version} is here; {checked}.\n")
        return path


def search_path(path: str) -> str:
    """Where programs are looked for: the PATH, and beside the Python that runs us, where pip puts
    those of this environment, which need not be on the PATH of a kernel."""
    return os.pathsep.join([path, os.path.dirname(sys.executable)])


def question(launch: Launch) -> PermissionEntry:
    """What the user is asked before an agent is downloaded and run."""
    from ..rendering.characters import one_line
    from ..session.transcript import PermissionChoice, PermissionEntry

    agent, binary = launch.agent, launch.binary
    newest = "not pinned: the newest one at the time"
    rows = [
        ("Agent", f"{agent.name} ({agent.id})"),
        ("Version", agent.version or ("as installed" if launch.way == "path" else newest)),
        ("Licence", agent.license or "the registry does not say"),
        ("Source", launch.source),
    ]
    if binary is not None:
        none = "none: the registry gives no checksum, so the download cannot be verified"
        rows.append(("SHA-256", binary.sha256 or none))
    if agent.website:
        rows.append(("About it", agent.website))
    argv = list(launch.argv)
    if binary is not None:
        argv[0] = str(binaries.place_of(agent, binary) / binary.cmd)
    return PermissionEntry(
        "install",
        0,
        question_id="install",
        title=f"{agent.name} is {_verb(launch)}",
        kind="execute",
        # One line each: what the registry says must not look like a line of ours.
        description="\n".join(f"{name}: {one_line(value, 400)}" for name, value in rows),
        command=argv,
        env=sorted(launch.env.items()),
        options=[
            PermissionChoice("allow", "", "allow_once"),
            PermissionChoice("always", "", "allow_always"),
            PermissionChoice("reject", "", "reject_once"),
        ],
        origin="client",
    )


def _verb(launch: Launch) -> str:
    return "started" if launch.way == "path" else "downloaded and run"
