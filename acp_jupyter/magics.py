"""``%acp``: connect, look, decide. The same in the agent kernel and in a Python notebook.

Magics are synchronous: the main thread waits for the trio thread and passes an interrupt on.
Each command is a method ``_do_NAME``; its docstring is its help.
"""

from __future__ import annotations

import difflib
import inspect
import keyword
import os
import shlex
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError as IPythonUsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from .errors import UsageError
from .rendering.characters import visible
from .services.agents import REPLAY, AgentSpec, from_command, from_recording, known_names
from .session.limits import NO_LIMITS, Limits

if TYPE_CHECKING:
    from .host.cell import CellContext
    from .host.host import Host
    from .host.link import Link
    from .session.attachments import Prompt
    from .session.options import Option
    from .session.transcript import Turn

CELL_OPTIONS = ("--session", "--out", "--timeout", "--attach", "--budget", "--tokens", "--agents")

LOG_LINES = 40
"""Messages that ``%acp log`` shows by default."""

LOG_WIDTH = 1000
"""Characters shown of one message."""


@magics_class
class AcpMagics(Magics):
    """The line magic ``%acp``.

    Args:
        shell: IPython's.
        host: what the commands act on.
        cell: makes the context of the cell that runs.
    """

    def __init__(self, shell: Any, host: Host, cell: Callable[[], CellContext]) -> None:
        super().__init__(shell)
        self._host = host
        self._cell = cell
        self._alias = ""

    @property
    def _link(self) -> Link:
        """The link that the command is for: the one of ``--as NAME``, else the one without."""
        if self._alias and self._alias not in self._host.links:
            raise _unknown_alias(self._alias, self._host)
        return self._host.link(self._alias)

    @line_magic
    def acp(self, line: str) -> None:
        """Talk to coding agents. ``%acp help`` lists the commands."""
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise UsageError(f"%acp {line}: {error}", remedy="Check the quotes.") from error
        words, self._alias = _take_alias(words)
        name, arguments = (words[0], words[1:]) if words else ("state", [])
        command = getattr(self, f"_do_{name}", None)
        if command is None or not name.isidentifier():
            raise _unknown_command(name)
        command(arguments)

    @magic_arguments()
    @argument("--session", "-s", default="", help="the agent connected with --as NAME")
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
        self._alias = options.session
        link = self._link
        assert self.shell is not None
        cwd = link.session.cwd if link.session is not None else self._host.cwd
        prompt = self._host.gather(
            cell.strip("\n"), options.attach, namespace=self.shell.user_ns, cwd=cwd
        )
        before = _last_turn(link)
        try:
            link.call(self._cell(), link.prompt, prompt, limits)
        finally:
            if options.out is not None and _last_turn(link) is not before:
                self._keep(link, options.out)  # also a turn that failed

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

    def _keep(self, link: Link, name: str) -> None:
        """Put the last turn into a variable of the user's."""
        from .api.turn import last_turn

        assert self.shell is not None
        assert link.agent is not None
        assert link.session is not None
        self.shell.user_ns[name] = last_turn(link.agent, link.session)

    # -- commands ------------------------------------------------------------------------------

    def _do_state(self, arguments: list[str]) -> None:
        """%acp: show the agent, the session and their state."""
        from .host import banner

        _no_arguments("state", arguments)
        link = self._link
        self._cell().show(banner.state(link.agent, link.session, self._host.policy))
        if not self._alias:
            for name, other in self._host.links.items():
                if name:
                    facts = banner.state(other.agent, other.session, self._host.policy)
                    self._cell().show(replace(facts, title=f"{name}: {facts.title}"))

    def _do_connect(self, arguments: list[str]) -> None:
        """%acp connect NAME [--cwd DIR] [--as ALIAS], or %acp connect … -- COMMAND ARGUMENT…:
        start an agent and open a session in the notebook's folder, or in DIR. With replay:FILE as
        the name [--speed original] [--apply-files]: replay a recording."""
        spec, cwd = self._parse_connect(arguments)
        link = self._host.link(self._alias)
        link.call(self._cell(), link.connect, spec, cwd)

    def _do_record(self, arguments: list[str]) -> None:
        """%acp record [FILE], or %acp record off: keep what is said with agents that are connected
        from now on, and what was decided, in a file beside the notebook, or in FILE."""
        recordings = self._host.recordings
        if len(arguments) > 1:
            raise UsageError("%acp record takes one word", remedy="Use the name of a file, or off.")
        if recordings.replayed_from:
            self._say(f"Recording: off, this is a replay of {recordings.replayed_from}.")
        elif arguments == ["off"]:
            path = recordings.stop()
            self._say(f"Recording: off{'' if path is None else f'; {path.name} is kept'}.")
        else:
            path = recordings.start(*arguments)
            self._say(f"Recording: {path.name}, from the next connect on.")

    def _do_restart(self, arguments: list[str]) -> None:
        """%acp restart: end the agent, start it anew and open a new session."""
        _no_arguments("restart", arguments)
        link = self._link
        link.call(self._cell(), link.restart)

    def _do_disconnect(self, arguments: list[str]) -> None:
        """%acp disconnect: end the agent and all that it started."""
        _no_arguments("disconnect", arguments)
        link = self._link
        agent = link.call(self._cell(), link.disconnect)
        if agent is None:
            self._say("No agent was connected.")
            return
        self._say(f"{agent.spec.name} has ended.")
        if agent.survivors():
            left = "\n  ".join(agent.survivors())
            self._say(f"It had left these running, which were ended too:\n  {left}")

    def _do_queue(self, arguments: list[str]) -> None:
        """%acp queue [TEXT], or %acp queue clear: have a prompt sent when the running turn has
        ended, in the same cell; without a text, list what waits."""
        link = self._link
        if arguments == ["clear"]:
            count = len(link.queue)
            link.queue.clear()
            self._say(f"{count} queued prompts dropped.")
            return
        if arguments:
            text = " ".join(arguments)
            assert self.shell is not None
            cwd = link.session.cwd if link.session is not None else self._host.cwd
            prompt = self._host.gather(text, namespace=self.shell.user_ns, cwd=cwd)
            place = link.call(self._cell(), link.enqueue, prompt, exclusive=False)
            self._say(f"Queued as number {place}.")
            return
        waiting = [f"{place}. {prompt.text}" for place, prompt in enumerate(link.queue, 1)]
        self._say("\n".join(waiting) or "Nothing is queued.")

    def _do_budget(self, arguments: list[str]) -> None:
        """%acp budget [--cost AMOUNT] [--seconds N] [--tokens N], or %acp budget off: caps on all
        turns of this notebook together; without an argument, what was spent."""
        link = self._link
        if arguments == ["off"]:
            link.caps = NO_LIMITS
        elif arguments:
            link.caps = _caps(arguments)
        caps = link.caps
        of_cost = f" of {caps.cost:g}" if caps.cost is not None else ""
        of_time = f" of {caps.seconds:g}" if caps.seconds is not None else ""
        tokens = f" At most {caps.tokens:,} tokens of context." if caps.tokens is not None else ""
        self._say(
            f"Spent: cost {link.spent.cost:.4g}{of_cost}, "
            f"{link.spent.seconds:.1f}{of_time} s.{tokens}"
        )

    def _do_snapshot(self, arguments: list[str]) -> None:
        """%acp snapshot: note how the files of the session's folder are, for the checks `changed`
        and `unchanged` of %%acp_check."""
        from .experiments import snapshot

        _no_arguments("snapshot", arguments)
        link = self._link
        cwd = link.session.cwd if link.session is not None else self._host.cwd
        link.snapshot = snapshot.take(os.path.realpath(cwd))
        self._say(f"{len(link.snapshot.files):,} files noted.")

    def _do_set(self, arguments: list[str]) -> None:
        """%acp set [NAME VALUE]: set an option of the session, such as mode or model; without
        arguments, list them with their values."""
        link = self._link
        if len(arguments) == 2:
            name, text = arguments
            known = link.session.options if link.session is not None else []
            is_switch = any(option.id == name and option.kind == "boolean" for option in known)
            value = {"true": True, "false": False}.get(text, text) if is_switch else text
            link.call(self._cell(), link.set_option, name, value)
        elif arguments:
            raise UsageError(
                "%acp set takes a name and a value", remedy="For example `%acp set model small`."
            )
        options = link.session.options if link.session is not None else []
        self._say(visible("\n".join(map(_option_line, options))) or "There are no options.")

    def _do_permissions(self, arguments: list[str]) -> None:
        """%acp permissions [ask|deny|allow|FILE], or %acp permissions revoke NUMBER|all:
        list rules, remembered answers and decisions; set the policy; forget remembered answers."""
        from .host import overview
        from .services.policy_file import read_policy

        link = self._link
        if arguments[:1] == ["revoke"]:
            self._revoke(link, arguments[1:])
            return
        if len(arguments) > 1:
            raise UsageError(
                "%acp permissions takes one word",
                remedy="Use ask, deny, allow, the path of a policy file, or revoke NUMBER.",
            )
        if arguments:
            link.call(self._cell(), link.set_policy, read_policy(arguments[0]))
        session = link.session
        policy = self._host.policy if session is None else session.permissions.policy
        self._say(overview.permissions(policy, session))

    def _revoke(self, link: Link, arguments: list[str]) -> None:
        if len(arguments) != 1 or not (arguments[0] == "all" or arguments[0].isdigit()):
            raise UsageError(
                "%acp permissions revoke takes a number, or all",
                remedy="`%acp permissions` lists the remembered answers.",
            )
        number = None if arguments[0] == "all" else int(arguments[0])
        count = link.call(self._cell(), link.revoke, number)
        self._say(f"Forgot {count} remembered answer{'' if count == 1 else 's'}.")

    def _do_log(self, arguments: list[str]) -> None:
        """%acp log [COUNT]: the last messages to and from the agent, and its standard error."""
        if len(arguments) > 1 or (arguments and not arguments[0].isdigit()):
            raise UsageError("%acp log takes a number", remedy="For example `%acp log 100`.")
        agent = self._link.agent
        if agent is None:
            self._say("No agent is connected.")
            return
        count = int(arguments[0]) if arguments else LOG_LINES
        self._say("\n".join(_log_lines(agent, count)) or "Nothing was said yet.")
        stderr = agent.stderr_tail(100)
        if stderr:
            self._say(f"Standard error:\n{stderr}")

    def _do_help(self, arguments: list[str]) -> None:
        """%acp help [COMMAND]: this list."""
        names = arguments or commands()
        for name in names:
            method = getattr(self, f"_do_{name}", None)
            if method is None:
                raise _unknown_command(name)
        texts = [inspect.getdoc(getattr(self, f"_do_{name}")) or "" for name in names]
        self._say("\n".join(text.replace("\n", " ") for text in texts))

    # -- reading and showing -------------------------------------------------------------------

    def _parse_connect(self, arguments: list[str]) -> tuple[AgentSpec, str]:
        own, command = arguments, None
        if "--" in arguments:
            cut = arguments.index("--")
            own, command = arguments[:cut], arguments[cut + 1 :]
        cwd = self._host.cwd
        names: list[str] = []
        source = None
        if any(word.startswith(REPLAY) for word in own):
            from .host.recordings import read_options

            source, own = read_options(own)
        rest = iter(own)
        for word in rest:
            if word == "--cwd":
                cwd = self._directory(next(rest, None))
            elif word.startswith("--cwd="):
                cwd = self._directory(word.removeprefix("--cwd="))
            elif word.startswith("-"):
                raise _unknown_option(word, ["--cwd", "--"])
            else:
                names.append(word)
        if command is not None:
            if names:
                raise UsageError(
                    "%acp connect takes a name or a command, not both",
                    remedy="Write `%acp connect -- PROGRAM ARGUMENT…`.",
                )
            return from_command(command), cwd
        if len(names) != 1:
            known = ", ".join(known_names(self._host.settings.agents))
            raise UsageError(
                "%acp connect takes the name of one agent",
                remedy=f"Known: {known}. For any other one: `%acp connect -- PROGRAM ARGUMENT…`.",
            )
        spec = self._host.agent_named(names[0])
        if source is not None and not self._host.recordings.replayed_from:
            spec = from_recording(names[0].removeprefix(REPLAY), source)
        return spec, cwd

    def _directory(self, given: str | None) -> str:
        if given is None:
            raise UsageError("--cwd needs a directory", remedy="For example `--cwd project`.")
        path = os.path.realpath(os.path.join(self._host.cwd, os.path.expanduser(given)))
        if not os.path.isdir(path):
            raise UsageError(f"{given} is no directory", remedy="Make it, or name another one.")
        return path

    def _say(self, text: str) -> None:
        self._cell().sink.stream(text + "\n")


def _option_line(option: Option) -> str:
    """``model = small (small, large)``."""
    values = [choice.value for choice in option.values[:20]] or ["true", "false"]
    value = str(option.value).lower() if option.kind == "boolean" else option.value
    return f"{option.id} = {value} ({', '.join(values)})"


def _caps(arguments: list[str]) -> Limits:
    """Read ``--cost 0.5 --seconds 60 --tokens 10000``."""
    found: dict[str, float] = {}
    words = iter(arguments)
    for word in words:
        name, _, value = word.partition("=")
        if name not in ("--cost", "--seconds", "--tokens"):
            raise _unknown_option(name, ["--cost", "--seconds", "--tokens", "off"])
        try:
            found[name] = float(value or next(words, ""))
        except ValueError as error:
            raise UsageError(
                f"{name} needs a number", remedy=f"For example `{name} 10`."
            ) from error
    tokens = found.get("--tokens")
    limits = Limits(
        found.get("--seconds"), found.get("--cost"), None if tokens is None else int(tokens)
    )
    limits.check()
    return limits


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


def _last_turn(link: Link) -> Turn | None:
    return link.session.transcript.turn if link.session is not None else None


def _unknown_alias(name: str, host: Host) -> UsageError:
    known = [alias for alias in host.links if alias]
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    nearest = f"Did you mean {close[0]}? " if close else ""
    names = f"Known: {', '.join(known)}. " if known else ""
    return UsageError(
        f"no agent was connected as {name!r}",
        remedy=f"{nearest}{names}Connect one with `%acp connect NAME --as {name}`.",
    )


def commands() -> list[str]:
    """The commands of ``%acp``, in the order of their help."""
    return [name.removeprefix("_do_") for name in vars(AcpMagics) if name.startswith("_do_")]


def _log_lines(agent: Any, count: int) -> list[str]:
    from .connection.environment import redact, secret_values

    secrets = secret_values(agent.environment)
    lines = []
    for entry in agent.log[-count:] if count else []:
        text = redact(entry.line.decode("utf-8", "replace").rstrip(), secrets)
        if len(text) > LOG_WIDTH:
            text = text[:LOG_WIDTH] + "…"
        lines.append(f"{'→' if entry.sent else '←'} {text}")
    return lines


def _no_arguments(name: str, arguments: list[str]) -> None:
    if arguments:
        raise UsageError(f"%acp {name} takes no arguments", remedy="See `%acp help`.")


def _unknown_command(name: str) -> UsageError:
    close = difflib.get_close_matches(name, commands(), n=3, cutoff=0.5)
    nearest = f"Did you mean {' or '.join(close)}? " if close else ""
    return UsageError(
        f"%acp knows no command {name!r}", remedy=f"{nearest}Known: {', '.join(commands())}."
    )


def _unknown_option(name: str, known: list[str]) -> UsageError:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    nearest = f"Did you mean {close[0]}? " if close else ""
    return UsageError(
        f"{name} is no option of this command", remedy=f"{nearest}Known: {', '.join(known)}."
    )
