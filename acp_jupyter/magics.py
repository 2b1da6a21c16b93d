"""``%acp``: connect, look, decide. The same in the agent kernel and in a Python notebook.

What the commands do is in the classes of `commands`; see `commands.base` for how they are written,
and `commands.table` for where a new one is entered.
"""

from __future__ import annotations

import difflib
import inspect
import keyword
import shlex
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError as IPythonUsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from .commands import table
from .commands.base import Commands, no_arguments
from .errors import UsageError
from .session.limits import Limits

if TYPE_CHECKING:
    from .client.session import Session
    from .host.cell import CellContext
    from .host.host import Host
    from .host.link import Link
    from .session.attachments import Prompt
    from .session.transcript import Turn

OWN = ("state", "help")
"""Commands that are here, and in no class of `commands`."""

CELL_OPTIONS = ("--session", "--out", "--timeout", "--attach", "--budget", "--tokens", "--agents")


@magics_class
class AcpMagics(Commands, Magics):
    """The magics ``%acp`` and ``%%acp``; made as `Commands` are."""

    def __init__(self, shell: Any, host: Host, cell: Callable[[], CellContext]) -> None:
        Magics.__init__(self, shell)
        Commands.__init__(self, shell, host, cell)

    @line_magic
    def acp(self, line: str) -> None:
        """Talk to coding agents. ``%acp help`` lists the commands."""
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise UsageError(f"%acp {line}: {error}", remedy="Check the quotes.") from error
        words, self._alias = _take_alias(words)
        name, arguments = (words[0], words[1:]) if words else ("state", [])
        self._command(name)(arguments)

    def _command(self, name: str) -> Callable[[list[str]], None]:
        """What runs a command, for the agent of the cell's ``--as``."""
        made: Commands = self
        if name not in OWN:
            found = table.class_with(name)
            if found is None:
                raise _unknown_command(name)
            made = found(self.shell, self._host, self._cell)
            made._alias = self._alias
        command: Callable[[list[str]], None] = getattr(made, f"_do_{name}")
        return command

    @magic_arguments()
    @argument(
        "--session",
        "-s",
        default="",
        help="the agent connected with --as NAME, or a number or id of `%%acp sessions`",
    )
    @argument("--out", "-o", help="name of a variable that gets the turn")
    @argument("--timeout", "-t", type=float, help="seconds after which the turn is cancelled")
    @argument(
        "--budget",
        "-b",
        type=float,
        help="cost after which the turn is cancelled, in the currency that the agent reports",
    )
    @argument(
        "--attach",
        "-a",
        action="append",
        default=[],
        help="a variable or a file that goes with the prompt, as @NAME in it does; may be repeated",
    )
    @argument("--tokens", type=int, help="tokens of context after which the turn is cancelled")
    @argument(
        "--agents",
        help="names of several agents that are asked at once, each in a copy of the folder: a,b,c; "
        "--out gets the list of their turns",
    )
    @cell_magic("acp")  # type: ignore[arg-type]  # the decorator types no name
    def acp_cell(self, line: str, cell: str) -> None:
        """Send the cell to an agent as a prompt; its answer streams into the output."""
        try:
            options = parse_argstring(self.acp_cell, line)
        except IPythonUsageError as error:
            unknown = next((word for word in line.split() if word.startswith("-")), "")
            nearest = difflib.get_close_matches(unknown, CELL_OPTIONS, n=1, cutoff=0.5)
            nearest = [] if nearest == [unknown] else nearest
            hint = f"Did you mean {nearest[0]}? " if nearest else ""
            raise UsageError(f"%%acp: {error}", remedy=f"{hint}`%%acp?` lists them.") from error
        if options.out is not None and not _is_variable(options.out):
            raise UsageError(
                f"--out {options.out}: that is no name of a variable",
                remedy="For example `--out turn`.",
            )
        limits = Limits(options.timeout, options.budget, options.tokens)
        if options.agents is not None:
            self._ask_several(options, cell, limits)
            return
        which = self._take_session(options.session)
        link = self._link
        assert self.shell is not None
        session = link.sessions.find_open(which) if which else link.session
        cwd = session.cwd if session is not None else self._host.cwd
        prompt = self._host.gather(
            cell.strip("\n"), options.attach, namespace=self.shell.user_ns, cwd=cwd
        )
        before = _last_turn(session)
        try:
            if which:
                link.call(self._cell(), link.sessions.prompt, which, prompt, limits)
            else:
                link.call(self._cell(), link.prompt, prompt, limits)
        finally:
            session = session if which else link.session
            if (
                options.out is not None
                and session is not None
                and _last_turn(session) is not before
            ):
                self._keep(link, session, options.out)  # also a turn that failed

    def _take_session(self, given: str) -> str:
        """Which session of the unnamed agent ``--session`` means; empty for an agent's name."""
        self._alias = ""
        if given and given not in self._host.links and self._link.sessions.knows(given):
            return given
        self._alias = given
        return ""

    def _ask_several(self, options: Any, cell: str, limits: Limits) -> None:
        from .experiments import several

        if options.session:
            raise UsageError(
                "--agents and --session do not go together",
                remedy="Name the agents that were connected with --as in --agents.",
            )
        assert self.shell is not None
        namespace = self.shell.user_ns

        def gather(cwd: str) -> Prompt:
            return self._host.gather(cell.strip("\n"), options.attach, namespace=namespace, cwd=cwd)

        def keep(turns: list[Any]) -> None:
            if options.out is not None:
                namespace[options.out] = turns

        agents = several.read_names(options.agents, self._host)
        several.ask(self._host, self._cell(), agents, gather, limits, keep)

    def _keep(self, link: Link, session: Session, name: str) -> None:
        """Put the last turn into a variable of the user's."""
        from .api.turn import last_turn

        assert self.shell is not None
        assert link.agent is not None
        self.shell.user_ns[name] = last_turn(link.agent, session)

    # -- commands ------------------------------------------------------------------------------

    def _do_state(self, arguments: list[str]) -> None:
        """%acp: show the agent, the session and their state."""
        from .host import banner

        no_arguments("state", arguments)
        link = self._link
        self._cell().show(banner.state(link.agent, link.session, self._host.policy))
        if not self._alias:
            for name, other in self._host.links.items():
                if name:
                    facts = banner.state(other.agent, other.session, self._host.policy)
                    self._cell().show(replace(facts, title=f"{name}: {facts.title}"))

    def _do_help(self, arguments: list[str]) -> None:
        """%acp help [NAME]: list the commands; with a name, tell all of that one."""
        from .commands import help as helping

        def doc(name: str) -> str:
            return inspect.getdoc(self._command(name)) or ""

        if arguments:
            for name in arguments:
                if name not in commands():
                    raise _unknown_command(name)
            self._say("\n".join(helping.full(doc(name)) for name in arguments))
            return
        groups = [("Agents", [doc("state")])]
        for place, names in table.CLASSES.items():
            shown = [name for name in names if not self._link.typed.hides(name)]
            groups.append((table.load(place).TITLE, [doc(name) for name in shown]))
        self._say(helping.overview(groups))


def _take_alias(words: list[str]) -> tuple[list[str], str]:
    """``--as NAME`` goes with every command; what stands behind ``--`` is the agent's."""
    own = words[: words.index("--")] if "--" in words else words
    for index, word in enumerate(own):
        name: str | None = None
        if word == "--as":
            name = own[index + 1] if index + 1 < len(own) else ""
            rest = words[:index] + words[index + 2 :]
        elif word.startswith("--as="):
            name = word.removeprefix("--as=")
            rest = words[:index] + words[index + 1 :]
        else:
            continue
        if not name.isidentifier():
            raise UsageError("--as needs a name", remedy="For example `--as reviewer`.")
        return rest, name
    return words, ""


def _is_variable(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)


def _last_turn(session: Session | None) -> Turn | None:
    return session.transcript.turn if session is not None else None


def commands() -> list[str]:
    """The commands of ``%acp``, in the order of their help."""
    return ["state", *table.names(), "help"]


def _unknown_command(name: str) -> UsageError:
    close = difflib.get_close_matches(name, commands(), n=3, cutoff=0.5)
    nearest = f"Did you mean {' or '.join(close)}? " if close else ""
    return UsageError(
        f"%acp knows no command {name!r}", remedy=f"{nearest}Known: {', '.join(commands())}."
    )
