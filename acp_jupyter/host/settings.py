"""The user's settings: from Jupyter's configuration directories and the environment.

Files ``jupyter_acp_config.py`` and ``jupyter_acp_config.json`` in the directories that
``jupyter --paths`` lists under "config"; never from the workspace or a notebook. An example::

    c.ACPJupyter.agent = "mine"
    c.ACPJupyter.agents = {"mine": ["python", "my_agent.py"]}
    c.ACPJupyter.permissions = "ask"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from jupyter_core.paths import jupyter_config_path
from traitlets import Bool, Dict, Enum, Float, List, Unicode, Union
from traitlets.config import Config, Configurable
from traitlets.config.loader import (
    ConfigFileNotFound,
    JSONFileConfigLoader,
    PyFileConfigLoader,
)

from ..errors import UsageError
from ..services.agents import AgentSpec
from ..services.policy import Policy
from ..services.policy_file import read_policy

BASENAME: Final = "jupyter_acp_config"


_WHERE: Final = (
    f"See {BASENAME}.py or {BASENAME}.json in the directories that `jupyter --paths` lists, and "
    "the variable ACP_JUPYTER_PERMISSIONS."
)


class ACPJupyter(Configurable):
    """Settings of acp-jupyter.

    Attributes:
        policy: what ``permissions`` says; a file is read once, with the settings.
    """

    policy = Policy()

    agent = Unicode(
        "",
        help="The agent that is connected at the first prompt: a name, or a command line. "
        "ACP_JUPYTER_AGENT goes before it.",
    ).tag(config=True)
    agents = Dict(
        help="Agents by name: a command (a string or a list of strings), or a dict with "
        '"command", "env", "env_mode" ("user" or "minimal") and "keep". One that runs elsewhere: '
        'a dict with "url", and "token_env" (the name of a variable) or "credential_helper" (a '
        'command that prints the token), "headers" and "insecure" where they are needed.'
    ).tag(config=True)
    registry = Unicode(
        "",
        help="Address of the registry of agents, by https; the official one if it is empty. "
        "ACP_JUPYTER_REGISTRY goes before it.",
    ).tag(config=True)
    allow_agents = List(
        Unicode(),
        help="Agents of the registry, by id, that are downloaded and run without a question; "
        '"*" stands for all of them.',
    ).tag(config=True)
    mcp_servers = Dict(
        help="MCP servers by name, in the form that the files of agents and editors have under "
        '"mcpServers": {"command": …, "args": […], "env": {…}}, or {"url": …, "headers": {…}}. '
        "Agents are told of one when you name it: `%acp mcp add NAME`, or "
        "`%acp connect … --mcp NAME`.",
    ).tag(config=True)
    permissions = Union(
        [Unicode(), Dict()],
        default_value="ask",
        help="What to do with permission requests: ask, deny, allow, the path of a policy file, "
        'or a policy as a dict with "default" and "rules". ACP_JUPYTER_PERMISSIONS goes before it.',
    ).tag(config=True)
    protocol = Enum(
        (1, 2),
        default_value=1,
        help="Version of the protocol that agents are asked for; 2 is a draft. An agent that has "
        "only 1 is started again with that. ACP_JUPYTER_PROTOCOL goes before it.",
    ).tag(config=True)
    silence_limit = Float(
        600.0,
        help="Seconds without a word from the agent after which a run that nobody watches fails. "
        "Where somebody can interrupt, there is no limit.",
    ).tag(config=True)

    propose_cells = Bool(
        True,
        help="Propose the code blocks of an answer as cells to insert or run.",
    ).tag(config=True)
    changes = Bool(
        True,
        help="Find out which files change while a turn runs: its folders are looked at before and "
        "after.",
    ).tag(config=True)

    save_hooks = Bool(
        False,
        help="Have the Jupyter server write the agent's files also where they are on this "
        "machine's disk, so that the save hooks of its configuration run. A link that is put in "
        "place of a folder in that very moment is followed then.",
    ).tag(config=True)

    @classmethod
    def load(cls, environ: Mapping[str, str]) -> ACPJupyter:
        """Read the configuration files, and what the environment puts in place of them.

        Raises:
            UsageError: a file or a variable cannot be understood.
        """
        try:
            settings = cls(config=_read_files())
            # traitlets only checks a value from a file when it is first set.
            settings.permissions = environ.get("ACP_JUPYTER_PERMISSIONS") or settings.permissions
            settings.policy = read_policy(settings.permissions)
        except UsageError as error:
            error.remedy = f"{error.remedy} {_WHERE}".strip()
            raise
        except Exception as error:
            raise UsageError(
                f"the configuration cannot be read: {error}",
                remedy=_WHERE,
            ) from error
        settings.agent = environ.get("ACP_JUPYTER_AGENT") or settings.agent
        settings.registry = environ.get("ACP_JUPYTER_REGISTRY") or settings.registry
        if environ.get("ACP_JUPYTER_PROTOCOL"):
            settings.protocol = read_protocol(environ["ACP_JUPYTER_PROTOCOL"])
        return settings

    def asked(self, spec: AgentSpec, protocol: int | None = None) -> AgentSpec:
        """The agent, to be asked for that version of the protocol, or for the one set here."""
        return replace(spec, protocol=self.protocol if protocol is None else protocol)


def read_protocol(value: object) -> int:
    """A version of the protocol as users write it.

    Raises:
        UsageError: there is none like it.
    """
    if str(value) not in ("1", "2"):
        raise UsageError(
            f"{str(value)[:100]!r} is no version of the protocol that this client has",
            remedy="It is 1, or 2 for the draft (--protocol, ACP_JUPYTER_PROTOCOL).",
        )
    return int(str(value))


def _read_files() -> Config:
    config = Config()
    for directory in reversed(jupyter_config_path()):  # later ones win: the user's own
        for loader in (JSONFileConfigLoader, PyFileConfigLoader):
            suffix = "json" if loader is JSONFileConfigLoader else "py"
            if not Path(directory, f"{BASENAME}.{suffix}").is_file():
                continue
            made: Any = loader(f"{BASENAME}.{suffix}", path=directory)
            try:
                config.merge(made.load_config())
            except ConfigFileNotFound:
                continue
    return config
