"""What a registry says of its agents, checked.

Format: https://github.com/agentclientprotocol/registry/blob/main/FORMAT.md. An entry that breaks a
rule is left out, and counted; a field that we do not know is skipped. What an entry may hold is
bounded, because all of it ends in command lines, paths and questions to the user.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from ...errors import UsageError

Runner = Literal["npx", "uvx"]

RUNNERS: Final[tuple[Runner, ...]] = ("uvx", "npx")
"""In the order of choice."""

PLATFORMS: Final = tuple(
    f"{system}-{machine}"
    for system in ("darwin", "linux", "windows")
    for machine in ("aarch64", "x86_64")
)

AGENTS: Final = 2_000
WORDS: Final = 100
TEXT: Final = 2_000
"""Most agents of a registry, arguments or variables of one, and characters of one text."""

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})

_ID = re.compile(r"[a-z][a-z0-9-]{0,63}")
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_PROGRAM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")

# Names of packages only: npx and uvx would also take folders, addresses and options.
_PACKAGE: Final[Mapping[Runner, re.Pattern[str]]] = {
    "npx": re.compile(
        r"(?:@[a-z0-9][a-z0-9._~-]*/)?[a-z0-9][a-z0-9._~-]*(?:@[0-9A-Za-z][0-9A-Za-z.+-]*)?"
    ),
    "uvx": re.compile(
        r"[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[A-Za-z0-9,._-]+\])?(?:(?:==|@)[0-9A-Za-z][0-9A-Za-z.+!-]*)?"
    ),
}

# Variables by which an entry could have something else run than what the question shows.
_FORBIDDEN_VARIABLE = re.compile(
    r"(?:LD_|DYLD_|NPM_CONFIG_|UV_|PIP_|PYTHON|NODE_|SSL_|GIT_).*"
    r"|PATH|HOME|SHELL|BASH_ENV|ENV|.*_PROXY",
    re.IGNORECASE,
)


class Invalid(Exception):
    """An entry breaks a rule; the text says which."""


@dataclass(frozen=True, slots=True)
class Package:
    """An agent as a package of npm or PyPI.

    Attributes:
        runner: what runs it: ``npx`` for npm, ``uvx`` for PyPI.
        package: its name, mostly with a version.
        cmd: the program in it; empty for the one it has, or that is called as it is.
    """

    runner: Runner
    package: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cmd: str = ""

    @property
    def pinned(self) -> bool:
        """Whether the package says its version."""
        return "==" in self.package or "@" in self.package[1:]


@dataclass(frozen=True, slots=True)
class Binary:
    """An agent as an archive for one platform, or a program by itself.

    Attributes:
        url: where it is.
        cmd: the program, relative to what is unpacked.
        sha256: of the archive; empty if the registry gives none.
    """

    platform: str
    url: str
    cmd: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Program:
    """What an agent's program is called where it is installed, and how it is called."""

    name: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RegistryAgent:
    """One agent of the registry.

    Attributes:
        id: by which it is connected.
        version: of its distribution; empty if that is the newest one at the time.
        website: where people read about it.
        packages, binaries: how it is distributed.
        program: where it may be installed already.
        curated: ``program`` comes with this package, not from the network.
        aliases: shorter names.
    """

    id: str
    name: str
    version: str = ""
    description: str = ""
    website: str = ""
    license: str = ""
    packages: tuple[Package, ...] = ()
    binaries: Mapping[str, Binary] = field(default_factory=dict)
    program: Program | None = None
    curated: bool = False
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Registry:
    """All agents of a registry.

    Attributes:
        agents: by id, in the registry's order.
        left_out: what was wrong with those left out.
    """

    agents: Mapping[str, RegistryAgent]
    left_out: tuple[str, ...] = ()


def parse_registry(document: object) -> Registry:
    """Read a registry.

    Args:
        document: decoded JSON.

    Raises:
        UsageError: it is no registry, or none of its agents can be used.
    """
    listed = document.get("agents") if isinstance(document, Mapping) else None
    if not isinstance(listed, list):
        raise UsageError("this is no registry of agents: there is no list of agents in it")
    agents: dict[str, RegistryAgent] = {}
    left_out = []
    for entry in listed[:AGENTS]:
        name = entry.get("id") if isinstance(entry, Mapping) else None
        try:
            agent = parse_agent(entry)
            if agent.id in agents:
                raise Invalid("the id is there twice")
        except Invalid as error:
            left_out.append(f"{str(name)[:64]!r}: {error}")
        else:
            agents[agent.id] = agent
    if len(listed) > AGENTS:
        left_out.append(f"{len(listed) - AGENTS:,} beyond the first {AGENTS:,}")
    if not agents:
        why = f": {left_out[0]}" if left_out else ""
        raise UsageError(f"no agent of this registry can be used{why}")
    return Registry(agents, tuple(left_out))


def parse_agent(entry: object, *, curated: bool = False) -> RegistryAgent:
    """Read one agent.

    Args:
        entry: decoded JSON.
        curated: it is one of the snapshot, which also names programs and short names.

    Raises:
        Invalid: it breaks a rule.
    """
    if not isinstance(entry, Mapping):
        raise Invalid("it is no object")
    version = entry.get("version", "")
    distribution = entry.get("distribution", {})
    if not isinstance(distribution, Mapping):
        raise Invalid("its distribution is no object")
    binaries = {
        platform: _binary(platform, target)
        for platform, target in _object(distribution, "binary").items()
        if platform in PLATFORMS
    }
    packages = tuple(
        _package(runner, distribution[runner]) for runner in RUNNERS if runner in distribution
    )
    if not curated and not (packages or binaries):
        raise Invalid("it has no distribution that we know")
    if version or not curated:
        version = _matching(_VERSION, version, "its version")
    return RegistryAgent(
        id=_matching(_ID, entry.get("id"), "its id"),
        name=_text(entry, "name", needed=True),
        version=version,
        description=_text(entry, "description"),
        website=_address(entry, "website") or _address(entry, "repository"),
        license=_text(entry, "license"),
        packages=packages,
        binaries=binaries,
        program=_program(entry) if curated else None,
        curated=curated,
        aliases=_words(entry.get("aliases", [])) if curated else (),
    )


def check_address(url: str) -> None:
    """Hold that something may be fetched from there: by https, or from this very machine.

    Raises:
        UsageError: it may not.
    """
    try:
        parts = urlsplit(url)
        local = parts.hostname in LOOPBACK
        good = bool(parts.hostname) and parts.port != 0 and parts.username is None
    except ValueError:
        good = local = False
        parts = urlsplit("")
    if not good or not (parts.scheme == "https" or (parts.scheme == "http" and local)):
        raise UsageError(
            f"nothing is fetched from {url[:200]!r}",
            remedy="Use an address that begins with https://.",
        )


def relative_path(path: str) -> str:
    """A path within an archive in its plain form, with slashes.

    Raises:
        Invalid: it leads out of the archive, or is none.
    """
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]
    outside = path.startswith(("/", "\\")) or ".." in parts
    if not parts or outside or any(not part.isprintable() or ":" in part for part in parts):
        raise Invalid(f"{path[:200]!r} is no path within an archive")
    return "/".join(parts)


def _binary(platform: str, target: object) -> Binary:
    if not isinstance(target, Mapping):
        raise Invalid(f"its binary for {platform} is no object")
    url, cmd = target.get("archive"), target.get("cmd")
    if not isinstance(url, str) or len(url) > TEXT or not isinstance(cmd, str) or len(cmd) > TEXT:
        raise Invalid(f"its binary for {platform} has no address or no command")
    try:
        check_address(url)
    except UsageError as error:
        raise Invalid(error.message) from error
    sha256 = target.get("sha256") or ""
    if sha256:
        sha256 = _matching(_SHA256, sha256, "its checksum").lower()
    return Binary(
        platform,
        url,
        relative_path(cmd),
        _words(target.get("args", [])),
        _variables(target.get("env", {})),
        sha256,
    )


def _package(runner: Runner, target: object) -> Package:
    if not isinstance(target, Mapping):
        raise Invalid(f"its {runner} package is no object")
    cmd = target.get("cmd") or ""
    if cmd:
        cmd = _matching(_PROGRAM, cmd, "its command")
    return Package(
        runner,
        _matching(_PACKAGE[runner], target.get("package"), "the name of its package"),
        _words(target.get("args", [])),
        _variables(target.get("env", {})),
        cmd,
    )


def _program(entry: Mapping[str, Any]) -> Program | None:
    target = entry.get("program")
    if not isinstance(target, Mapping):
        return None
    return Program(
        _matching(_PROGRAM, target.get("name"), "its program"),
        _words(target.get("args", [])),
        _variables(target.get("env", {})),
    )


def _object(entry: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = entry.get(key, {})
    if not isinstance(value, Mapping):
        raise Invalid(f"{key} is no object")
    return value


def _matching(pattern: re.Pattern[str], value: object, what: str) -> str:
    if not isinstance(value, str) or len(value) > TEXT or pattern.fullmatch(value) is None:
        raise Invalid(f"{what} is {str(value)[:100]!r}")
    return value


def _text(entry: Mapping[str, Any], key: str, *, needed: bool = False) -> str:
    value = entry.get(key) or ""
    if not isinstance(value, str) or len(value) > TEXT or (needed and not value.strip()):
        raise Invalid(f"its {key} is no text, or too long")
    return value


def _address(entry: Mapping[str, Any], key: str) -> str:
    """An address to be shown; none is better than a doubtful one."""
    value = entry.get(key)
    good = isinstance(value, str) and value.startswith("https://") and len(value) <= TEXT
    return str(value) if good and str(value).isascii() and str(value).isprintable() else ""


def _words(value: object) -> tuple[str, ...]:
    good = isinstance(value, list) and len(value) <= WORDS
    if not isinstance(value, list) or not good or not all(map(_is_word, value)):
        raise Invalid("its arguments are no list of words")
    return tuple(value)


def _variables(value: object) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or len(value) > WORDS:
        raise Invalid("its variables are no object")
    for name, word in value.items():
        if not isinstance(name, str) or not _is_word(word) or not _VARIABLE.fullmatch(name):
            raise Invalid("its variables are no words")
        if _FORBIDDEN_VARIABLE.fullmatch(name):
            raise Invalid(f"it sets {name}, which decides what runs")
    return dict(value)


def _is_word(value: object) -> bool:
    return isinstance(value, str) and len(value) <= TEXT and "\0" not in value
