"""The agents of others that are run: how each is installed, configured and started.

Each gets a home of its own, and the scripted model's address in the way that it knows. Telemetry
and updates are switched off where an agent has a switch for them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).with_name("programs")

KEY = "sk-scripted"

VISION = "qwen3-vl-plus"
"""A name of which qwen-code knows that it takes pictures; the scripted model answers to any."""


@dataclass(frozen=True)
class Place:
    """Where an agent is, and what it is given.

    Attributes:
        installed: the folder that it is installed in.
        home: its home.
        url: of the model.
    """

    installed: Path
    home: Path
    url: str

    def node(self, name: str) -> list[str]:
        return [str(self.installed / "node_modules" / ".bin" / name)]

    def python(self, *words: str) -> list[str]:
        return [str(self.installed / "bin" / "python"), *words]

    def program(self, name: str) -> list[str]:
        return [str(self.installed / "bin" / name)]

    def write(self, path: str, content: str | dict[str, object]) -> None:
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))


Started = tuple[list[str], dict[str, str]]


@dataclass(frozen=True)
class Other:
    """An agent.

    Attributes:
        name: in the matrix.
        kind: "npm" or "pypi".
        packages: what to install; the first is the agent.
        start: prepares the home, and gives the command and variables.
        protocol: version to ask for.
        mode: in which it asks before it writes, where that is not its first one.
    """

    name: str
    kind: str
    packages: tuple[str, ...]
    start: Callable[[Place], Started]
    protocol: int = 1
    mode: str = ""

    @property
    def folder(self) -> str:
        """What it is installed in; examples on one SDK share it."""
        return re.sub(r"[^\w.=-]+", "-", self.packages[0]).strip("-")


def _claude(place: Place) -> Started:
    place.write(".claude.json", {"hasCompletedOnboarding": True})
    return place.node("claude-agent-acp"), {
        "ANTHROPIC_BASE_URL": place.url,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CONFIG_DIR": str(place.home / ".claude"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "IS_SANDBOX": "1",
    }


def _codex(place: Place) -> Started:
    place.write(
        ".codex/config.toml",
        f"""\
model = "gpt-5"
model_provider = "scripted"
approval_policy = "on-request"
sandbox_mode = "read-only"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.scripted]
name = "scripted"
base_url = "{place.url}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
""",
    )
    home = str(place.home / ".codex")
    return place.node("codex-acp"), {
        "SCRIPTED_KEY": KEY,
        "OPENAI_API_KEY": KEY,
        "CODEX_HOME": home,
    }


def _gemini(place: Place) -> Started:
    settings: dict[str, object] = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
    }
    place.write(".gemini/settings.json", settings)
    return [*place.node("gemini"), "--acp", "--model", "gemini-2.5-pro"], {
        "GEMINI_API_KEY": KEY,
        "GOOGLE_GEMINI_BASE_URL": place.url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GEMINI_TELEMETRY_ENABLED": "false",
        "GEMINI_CLI_NO_RELAUNCH": "true",
    }


def _opencode(place: Place) -> Started:
    model = {
        "name": "Scripted",
        "attachment": True,
        "tool_call": True,
        "modalities": {"input": ["text", "image"], "output": ["text"]},
        "limit": {"context": 100000, "output": 4000},
    }
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Scripted",
        "options": {"baseURL": f"{place.url}/v1", "apiKey": KEY},
        "models": {"scripted": model},
    }
    settings: dict[str, object] = {
        "provider": {"scripted": provider},
        "model": "scripted/scripted",
        "small_model": "scripted/scripted",
        "autoupdate": False,
        "share": "disabled",
        "permission": {"edit": "ask", "bash": "ask"},
    }
    place.write(".config/opencode/opencode.json", settings)
    return [*place.node("opencode"), "acp"], {
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    }


def _qwen(place: Place) -> Started:
    settings: dict[str, object] = {
        "security": {"auth": {"selectedType": "openai"}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"disableAutoUpdate": True},
        "model": {"name": VISION},
    }
    place.write(".qwen/settings.json", settings)
    return [*place.node("qwen"), "--acp"], {
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": f"{place.url}/v1",
        "OPENAI_MODEL": VISION,
    }


def _vibe(place: Place) -> Started:
    place.write(
        ".vibe/config.toml",
        f"""\
active_model = "scripted"
enable_telemetry = false
enable_update_checks = false
enable_auto_update = false

[[providers]]
name = "scripted"
api_base = "{place.url}/v1"
api_key_env_var = "SCRIPTED_KEY"
backend = "generic"

[[models]]
name = "scripted"
provider = "scripted"
alias = "scripted"
supports_images = true
""",
    )
    return place.program("vibe-acp"), {
        "VIBE_HOME": str(place.home / ".vibe"),
        "SCRIPTED_KEY": KEY,
        "MISTRAL_API_KEY": KEY,
    }


def _kimi(place: Place) -> Started:
    place.write(
        ".kimi/config.toml",
        f"""\
default_model = "scripted"
telemetry = false

[providers.scripted]
type = "openai_legacy"
base_url = "{place.url}/v1"
api_key = "{KEY}"

[models.scripted]
provider = "scripted"
model = "scripted"
max_context_size = 100000
capabilities = ["image_in"]
""",
    )
    # It opens a session only for who has logged in; the token is asked for by nobody here.
    token = {"access_token": KEY, "refresh_token": KEY, "expires_at": 4e9, "token_type": "Bearer"}
    place.write(".kimi/credentials/kimi-code.json", {**token, "scope": "", "expires_in": 1e9})
    return [*place.program("kimi"), "acp"], {"KIMI_CLI_NO_AUTO_UPDATE": "1"}


def _fast(place: Place) -> Started:
    command = [*place.program("fast-agent-acp"), "-x", "--model", "generic.scripted"]
    return command, {"GENERIC_BASE_URL": f"{place.url}/v1", "GENERIC_API_KEY": KEY}


def _pydantic(place: Place) -> Started:
    return place.python(str(PROGRAMS / "pydantic_agent.py")), {
        "OPENAI_BASE_URL": f"{place.url}/v1",
        "OPENAI_API_KEY": KEY,
        "PYDANTIC_DISABLE_PLUGINS": "1",
    }


def _deepagents(place: Place) -> Started:
    return place.python(str(PROGRAMS / "deep_agent.py")), {
        "OPENAI_BASE_URL": f"{place.url}/v1",
        "OPENAI_API_KEY": KEY,
        "LANGSMITH_TRACING": "false",
    }


def _hermes(place: Place) -> Started:
    place.write(
        ".hermes/config.yaml",
        f"""\
model:
  default: scripted
  provider: custom
  base_url: {place.url}/v1
  api_key: {KEY}
  context_length: 200000
""",
    )
    return place.program("hermes-acp"), {
        "HERMES_HOME": str(place.home / ".hermes"),
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": f"{place.url}/v1",
    }


def _typescript(version: int) -> Callable[[Place], Started]:
    def start(place: Place) -> Started:
        sdk = place.installed / "node_modules" / "@agentclientprotocol" / "sdk"
        told = json.loads((sdk / "package.json").read_text())["version"]
        env = {"ACP_SDK": str(sdk), "ACP_VERSION": str(version), "ACP_SDK_VERSION": told}
        return ["node", str(PROGRAMS / "ts_agent.mjs")], env

    return start


SDK = ("@agentclientprotocol/sdk",)
CLAUDE = ("@agentclientprotocol/claude-agent-acp",)

AGENTS = [
    Other("claude-agent-acp", "npm", CLAUDE, _claude),
    Other("claude-agent-acp-v2", "npm", CLAUDE, _claude, protocol=2),
    Other("codex-acp", "npm", ("@agentclientprotocol/codex-acp",), _codex, mode="read-only"),
    Other("gemini-cli", "npm", ("@google/gemini-cli",), _gemini),
    Other("opencode", "npm", ("opencode-ai",), _opencode),
    Other("qwen-code", "npm", ("@qwen-code/qwen-code",), _qwen, mode="default"),
    Other("mistral-vibe", "pypi", ("mistral-vibe",), _vibe, mode="ask"),
    Other("kimi-cli", "pypi", ("kimi-cli<1.52",), _kimi),
    Other("fast-agent", "pypi", ("fast-agent-acp",), _fast),
    Other("pydantic-acp", "pypi", ("pydantic-acp", "pydantic-ai-slim[openai]"), _pydantic),
    Other("deepagents-acp", "pypi", ("deepagents-acp", "langchain-openai"), _deepagents),
    Other("hermes", "pypi", ("hermes-agent[acp]",), _hermes),
    Other("ts-sdk-v1", "npm", SDK, _typescript(1)),
    Other("ts-sdk-v2", "npm", SDK, _typescript(2), protocol=2),
]
"""In the order of the matrix. The last ones stand on the official SDK, and do without a model."""
