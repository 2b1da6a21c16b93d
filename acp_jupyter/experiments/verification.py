"""What differs now from what an executed notebook was run with.

A difference names a place in the header, and the values then and now. Not compared are the date,
and what nobody can tell without the run: models and options, which are the agents' to set. Agents
are only started where that is asked for; the version that each says is compared then.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import ACPError, UsageError
from . import header as headers


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as it was; ``None`` is what is not there."""

    what: str
    then: Any
    now: Any


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` found.

    Attributes:
        header: of the run.
        differences: by place in the header.
        not_compared: what could not be compared, and why.
    """

    header: dict[str, Any]
    differences: list[Difference]
    not_compared: list[str]

    @property
    def same(self) -> bool:
        return not self.differences

    def as_json(self) -> dict[str, Any]:
        return {
            "version": 1,
            "same": self.same,
            "differences": [asdict(difference) for difference in self.differences],
            "not_compared": self.not_compared,
            "header": self.header,
        }


def verify(
    path: Path,
    *,
    cwd: Path | None = None,
    source: Path | None = None,
    permissions: str | None = None,
    start_agents: bool = False,
) -> Verification:
    """Compare an executed notebook's header with what is here now.

    Args:
        path: the executed notebook.
        cwd: the folder it ran in; by default its own.
        source: the notebook that was run, to see whether it still says the same.
        permissions: the policy to compare with, as for ``run``.
        start_agents: start each agent to ask for its version.

    Raises:
        UsageError: the notebook cannot be read, or has no header.
    """
    from ..export.file import read_notebook
    from .run import nodes

    header = headers.of_notebook(nodes(read_notebook(path)))
    if header is None:
        raise UsageError(
            f"the notebook {path} does not say what it was run with",
            remedy="Name one that `acp-jupyter run` has written.",
        )
    left: list[str] = []
    now: dict[str, Any] = {
        "packages": headers.packages(),
        "environment": headers.environment(),
        "repository": headers.repository(str(path.parent if cwd is None else cwd), path),
    }
    found = [
        difference
        for name, value in now.items()
        for difference in _compare(name, header.get(name), value)
    ]
    if source is None:
        left.append("source: name the notebook that was run, with --source")
    else:
        digest = headers.source_digest(nodes(read_notebook(source)))
        found += _compare("source", header.get("source"), digest)
    found += _policies(header, permissions, left)
    found += _agents(header, start_agents, left)
    return Verification(header, found, left)


def _compare(what: str, then: Any, now: Any) -> Iterator[Difference]:
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        for name in sorted({*then, *now}):
            yield from _compare(f"{what}.{name}", then.get(name), now.get(name))
    elif then != now:
        yield Difference(what, then, now)


def _policies(
    header: Mapping[str, Any], permissions: str | None, left: list[str]
) -> Iterator[Difference]:
    if permissions is None:
        left.append("policy: name one with --permissions")
        return
    from ..host.report import policy_facts
    from ..services.policy_file import read_policy

    now = policy_facts(read_policy(permissions))
    for agent in _known_agents(header):
        yield from _compare(f"agents.{agent['name']}.policy", agent.get("policy"), now)


def _agents(header: Mapping[str, Any], start: bool, left: list[str]) -> Iterator[Difference]:
    """Only the user's own settings say what a name stands for: a notebook names no program."""
    from ..host.settings import ACPJupyter
    from ..services.agents import from_name, known_names

    configured = ACPJupyter.load(os.environ).agents
    for agent in _known_agents(header):
        name = agent["name"]
        what = f"agents.{name}"
        if name not in known_names(configured):
            left.append(f"{what}: no agent of that name is configured")
            continue
        command = headers.redacted(list(from_name(name, configured).argv))
        yield from _compare(f"{what}.command", agent.get("command"), command)
        if start:
            then = f"{agent.get('agent')} {agent.get('version')}".strip()
            yield from _compare(f"{what}.version", then, _version_now(name))
        else:
            left.append(f"{what}.version: --agents starts it to ask")


def _known_agents(header: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Those of a header, which anybody may have written."""
    held = header.get("agents")
    agents = held if isinstance(held, list) else []
    return [a for a in agents if isinstance(a, Mapping) and isinstance(a.get("name"), str)]


def _version_now(name: str) -> str:
    """What an agent says it is, or why it does not."""
    from ..api.agent import connect

    with tempfile.TemporaryDirectory(prefix="acp-jupyter-verify-") as folder:
        try:
            with connect(name, cwd=folder, permissions="deny") as started:
                return started.name
        except ACPError as error:
            return f"it does not start: {error.message}"
