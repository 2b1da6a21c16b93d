"""Logging in where an agent wants it (error -32000), and ``%acp login``. On the trio thread.

Rules:
- The user chooses how, and is asked before anything is done; where nobody can be asked, the error
  says how to go on.
- What is typed is a secret: it is masked, kept for as long as the agent is connected, and taken out
  of logs, recordings and errors. It goes to the agent alone.
- A command of the agent's is never run here: it is shown, and the user runs it in a terminal (C11).
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from ..errors import ACPError, AuthenticationRequired, ErrorCode, UsageError
from ..protocol.auth import AuthMethod, auth_methods, find
from ..protocol.elicitation import Elicitation
from ..protocol.forms import Choice, Field
from ..rendering.characters import one_line
from ..services.elicitation import Answer
from ..services.permissions import CannotAsk
from ..session.transcript import ElicitationEntry
from .asking import Asking
from .confirming import confirm

if TYPE_CHECKING:
    from ..client.agent import Agent
    from ..client.client import Client
    from ..client.session import Session
    from ..services.agents import AgentSpec
    from .cell import CellContext
    from .host import Host
    from .link import Link

START_LIMIT: Final = 60.0
"""Seconds an agent has to get ready where nobody can interrupt, see `link`."""

WIDTH: Final = 100
"""Characters shown of the name of a method."""

TOKEN_WORDS: Final = ("token", "oauth", "key")


class Login:
    """Has the user log in; called by `Client` with an agent that wants it.

    Args:
        host: of the notebook.
        cell: that runs.
        wanted: the method that the user named already; may be empty.

    Attributes:
        asking: a question is open, or the agent is busy with the login.
        used: the agent wanted the user to log in.
    """

    def __init__(self, host: Host, cell: CellContext, wanted: str = "") -> None:
        self._host = host
        self._cell = cell
        self._wanted = wanted
        self.asking = False
        self.used = False

    async def __call__(
        self, agent: Agent, error: AuthenticationRequired | None
    ) -> AgentSpec | None:
        """Log in.

        Returns:
            ``None`` where that is done on this connection; else how to start the agent again.

        Raises:
            AuthenticationRequired: the user did not log in, or nobody can be asked.
            ACPError: it failed.
        """
        self.asking = self.used = True
        try:
            return await self._log_in(agent, error)
        finally:
            self.asking = False

    async def _log_in(self, agent: Agent, error: AuthenticationRequired | None) -> AgentSpec | None:
        assert agent.initialized is not None
        methods = auth_methods(agent.initialized)
        if not methods or agent.replay is not None:  # there is nothing that could be called (C10)
            raise error or UsageError(
                f"agent {agent.spec.name!r} offers no way to log in",
                remedy="Log in with its own command line in a terminal, or set its API key.",
            )
        if self._wanted:
            method, self._wanted = find(methods, self._wanted), ""
        else:
            method = await self._choose(agent, methods, error)
        match method.kind:
            case "agent":
                await self._by_agent(agent, {"methodId": method.id}, method)
                return None
            case "string":
                await self._by_string(agent, method)
                return None
            case "env_var":
                return await self._by_variables(agent, method)
            case "terminal":
                return await self._by_terminal(agent, method)
            case "unknown":
                raise UsageError(
                    f"the login {_name(method)!r} is of a type that this client does not know: "
                    f"{one_line(method.type_name, WIDTH)!r}",
                    remedy="Log in with the agent's own command line in a terminal.",
                )

    async def _choose(
        self, agent: Agent, methods: Sequence[AuthMethod], error: AuthenticationRequired | None
    ) -> AuthMethod:
        choices = tuple(Choice(method.id, method.name, method.description) for method in methods)
        only = choices[0].value if len(choices) == 1 else None
        field = Field("method", "choice", "Log in by", required=True, choices=choices, default=only)
        given = await self._fill(agent, error, "The agent wants you to log in.", [field])
        return next(method for method in methods if method.id == given["method"])

    async def _fill(
        self,
        agent: Agent,
        error: AuthenticationRequired | None,
        message: str,
        fields: Sequence[Field],
    ) -> dict[str, str]:
        """What the user enters, by the name of the field."""
        ident = f"login-{secrets.token_hex(6)}"
        entry = ElicitationEntry(
            ident,
            0,
            question_id=ident,
            agent=agent.name,
            message=message,
            fields=list(fields),
        )
        try:
            answer = await Asking(self._host, self._cell).fill(entry)
        except CannotAsk as failure:
            raise _not_logged_in(agent, error, f"nobody can be asked: {failure}") from failure
        if answer.action != "accept":
            raise _not_logged_in(agent, error, "you did not log in")
        return {name: str(value) for name, value in answer.content.items()}

    async def _answer(self, agent: Agent, request: Elicitation) -> Answer:
        """Put a question of the agent's own about the login."""
        if request.mode == "unknown" or request.problem:
            return Answer("decline", by="client", reason=request.problem)
        ident = f"login-{secrets.token_hex(6)}"
        entry = ElicitationEntry(
            ident,
            0,
            question_id=ident,
            agent=agent.name,
            mode="url" if request.mode == "url" else "form",
            message=request.message,
            title=request.title,
            description=request.description,
            fields=request.fields,
            url=request.url,
            elicitation_id=request.elicitation_id,
        )
        try:
            return await Asking(self._host, self._cell).fill(entry)
        except CannotAsk as error:
            return Answer("cancel", by="nobody", reason=str(error))

    # -- the kinds -----------------------------------------------------------------------------

    async def _by_agent(self, agent: Agent, params: dict[str, str], method: AuthMethod) -> None:
        self._cell.sink.stream(f"Logging in: {_name(method)} …\n")
        agent.on_question = partial(self._answer, agent)
        try:
            await agent.request("authenticate", params)
        finally:
            agent.on_question = None
        self._cell.sink.stream("Logged in.\n")

    async def _by_string(self, agent: Agent, method: AuthMethod) -> None:
        """The oldest dialect: the method by its name, and what proves who the user is."""
        is_token = any(word in method.id.lower() for word in TOKEN_WORDS)
        if not is_token and "pass" not in method.id.lower():
            await self._by_agent(agent, {"methodId": method.id}, method)
            return
        key = "token" if is_token else "password"
        message = f"The {key} is sent to the agent as you type it."
        given = await self._fill(agent, None, message, [_secret(key, key.capitalize())])
        agent.conceal([given[key]])
        await self._by_agent(agent, {"method": method.id, key: given[key]}, method)

    async def _by_variables(self, agent: Agent, method: AuthMethod) -> AgentSpec:
        if agent.spec.remote is not None:
            raise UsageError(
                f"the login {_name(method)!r} is by variables on the machine of the agent",
                remedy="Set them there.",
            )
        if not method.variables:
            raise UsageError(
                f"the login {_name(method)!r} names no variable that could be set",
                remedy="Set the agent's API key in the environment of Jupyter.",
            )
        where = f" You get them at {one_line(method.link, 300)}" if method.link else ""
        message = (
            "These are set in the environment of the agent, which is started anew. "
            f"They are kept nowhere else.{where}"
        )
        fields = [
            _secret(each.name, each.label, required=not each.optional)
            if each.secret
            else Field(each.name, "text", each.label, required=not each.optional)
            for each in method.variables
        ]
        given = await self._fill(agent, None, message, fields)
        given = {name: value for name, value in given.items() if value}
        hidden = {each.name for each in method.variables if each.secret}
        spec = agent.spec
        return replace(
            spec,
            env={**spec.env, **given},
            secrets=spec.secrets | {given[name] for name in hidden & given.keys()},
        )

    async def _by_terminal(self, agent: Agent, method: AuthMethod) -> AgentSpec:
        if agent.spec.remote is not None:  # also a command of its own choice: not on this machine
            raise UsageError(
                f"the login {_name(method)!r} is a command on the machine of the agent",
                remedy="Log in there.",
            )
        line = terminal_command(agent, method)
        whose = " The command is the agent's own choice: read it first." if method.command else ""
        self._cell.sink.stream(
            f"Run this in a terminal (in JupyterLab: File, New, Terminal).{whose}\n\n  {line}\n\n"
        )
        try:
            done = await confirm(
                self._host,
                self._cell,
                "Connect again, now that the login in the terminal has succeeded",
                remedy="Run the command in a terminal, then connect again.",
            )
        except UsageError as error:
            raise _not_logged_in(agent, None, error.message, error.remedy) from error
        if not done:
            raise _not_logged_in(agent, None, "you did not log in")
        return agent.spec


class Logins:
    """Logging in and out of the agents of a link.

    Args:
        host: of the notebook.
        link: whose agents they are.

    Attributes:
        preset: the way to log in where a script has chosen it; may be empty.
    """

    def __init__(self, host: Host, link: Link) -> None:
        self.preset = ""
        self._host = host
        self._link = link
        self._login: Login | None = None
        self._refused: tuple[AgentSpec, str] | None = None

    @property
    def asking(self) -> bool:
        """Whether a login is going on."""
        return self._login is not None and self._login.asking

    async def connect(
        self,
        client: Client,
        cell: CellContext,
        spec: AgentSpec,
        cwd: str,
        limit: float | None,
        session_id: str | None = None,
        wanted: str = "",
    ) -> Session:
        """`Client.connect` where the user may log in; an agent that wants it in vain is kept."""
        self._login = login = Login(self._host, cell, wanted or self.preset)
        self._refused = None
        try:
            return await client.connect(spec, cwd, limit=limit, session_id=session_id, login=login)
        except AuthenticationRequired:
            self._refused = spec, cwd
            raise

    async def log_in(self, cell: CellContext, method: str) -> bool:
        """Log in to the agent that is connected, or to the one that could not be without.

        Args:
            cell: that runs.
            method: id or name of the way to; empty to be asked.

        Returns:
            Whether the agent wanted it.

        Raises:
            UsageError: there is no such agent or way.
            ACPError: it failed.
        """
        link = self._link
        agent = link.agent
        if agent is not None and agent.alive:
            await self._with(Login(self._host, cell, method), cell, agent, None)
            return True
        assert link.client is not None
        last = None if agent is None else (agent.spec, agent.cwd)
        spec, cwd = self._refused or last or (self._host.default_agent(), link.cwd)
        limit = None if cell.attended else START_LIMIT
        await link.starting(cell, self.connect(link.client, cell, spec, cwd, limit, wanted=method))
        return self._login is not None and self._login.used

    async def after(self, error: AuthenticationRequired, cell: CellContext, agent: Agent) -> None:
        """Log in where a connected agent wants it all at once."""
        await self._with(Login(self._host, cell), cell, agent, error)

    async def _with(
        self, login: Login, cell: CellContext, agent: Agent, error: AuthenticationRequired | None
    ) -> None:
        """Log in to a connected agent; where that takes a new process, its session is reopened."""
        self._login = login
        again = await login(agent, error)
        if again is None:
            return
        current = self._link.session
        reopens = current is not None and agent.lifecycle.reopens
        ident = current.session_id if current is not None and reopens else None
        cwd = agent.cwd if current is None else current.cwd
        await self._link.connect(cell, again, cwd, ident)

    async def log_out(self, _cell: CellContext) -> None:
        """Log out.

        Raises:
            UsageError: no agent is connected, or it does not know how.
            ACPError: it failed.
        """
        agent = self._link.agent
        if agent is None or not agent.alive:
            raise UsageError("no agent is connected", remedy="Run `%acp connect` first.")
        if not agent.offers("logout"):  # C9
            raise UsageError(
                f"agent {agent.spec.name!r} cannot log out",
                remedy="It does not advertise logout; use its own command line.",
            )
        await agent.request("logout", {})


def terminal_command(agent: Agent, method: AuthMethod) -> str:
    """The command line of a login, for a POSIX shell; everything in it is quoted."""
    argv = [method.command] if method.command else list(agent.spec.argv)
    variables = [f"{name}={text}" for name, text in method.env]
    words = [*(["env", *variables] if variables else []), *argv, *method.args]
    return one_line(f"cd {shlex.quote(agent.cwd)} && {shlex.join(words)}", 20_000)


def _secret(name: str, title: str, *, required: bool = True) -> Field:
    return Field(name, "text", title, required=required, secret=True)


def _name(method: AuthMethod) -> str:
    return one_line(method.name, WIDTH)


def _not_logged_in(
    agent: Agent, error: AuthenticationRequired | None, why: str, remedy: str = ""
) -> ACPError:
    """What a cell ends with where the user is not logged in."""
    assert agent.initialized is not None
    ids = ", ".join(one_line(each.id, WIDTH) for each in auth_methods(agent.initialized)[:10])
    text = error.message if error is not None else f"agent {agent.spec.name!r} is not logged in"
    return AuthenticationRequired(
        f"{text} ({why})",
        code=ErrorCode.AUTH_REQUIRED,
        data=None if error is None else error.data,
        remedy=remedy or f"Run `%acp login METHOD`, then this cell again. It offers: {ids}.",
    )
