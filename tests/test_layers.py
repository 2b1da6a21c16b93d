"""The architecture, read off the imports: who may know whom.

``LAYERS`` assigns every top-level module of the package to a layer; a new module fails the test
until it is placed. Imports inside functions and under ``TYPE_CHECKING`` count too: a layer that
names another layer's types knows it.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import acp_jupyter

PACKAGE = Path(acp_jupyter.__file__).parent

# What each layer may import of the package, itself apart.
PURE = ["errors", "protocol", "session"]
BELOW_CLIENT = [*PURE, "rendering", "connection", "services"]
MAY_IMPORT = {
    # Names them for type checkers only: that importing it loads nothing is a test of its own.
    "root": [*BELOW_CLIENT, "client", "surfaces"],
    "errors": [],
    "protocol": ["errors"],
    "session": ["errors", "protocol"],
    "rendering": PURE,
    "connection": PURE,
    "services": [*PURE, "rendering", "connection"],
    "client": BELOW_CLIENT,
    # The command line starts the bundled agent, which is otherwise a process of its own.
    "surfaces": [*BELOW_CLIENT, "client", "demo_agent"],
    "demo_agent": ["errors"],
    "replay_agent": ["errors", "protocol"],
}

# The layer of each module or package directly in acp_jupyter ("" is acp_jupyter/__init__.py).
LAYERS = {
    "": "root",
    "errors": "errors",
    "protocol": "protocol",
    "session": "session",
    "rendering": "rendering",
    "connection": "connection",
    "services": "services",
    "client": "client",
    "api": "surfaces",
    "cli": "surfaces",
    "commands": "surfaces",
    "display": "surfaces",
    "doctor": "surfaces",
    "experiments": "surfaces",
    "export": "surfaces",
    "extension": "surfaces",
    "host": "surfaces",
    "kernel": "surfaces",
    "magics": "surfaces",
    "nbval_plugin": "surfaces",
    "questions": "surfaces",
    "demo_agent": "demo_agent",
    "replay_agent": "replay_agent",
}

# A pure layer does no I/O, knows no clock and no chance: what it needs of them are arguments.
PURE_LAYERS = {"errors", "protocol", "session", "rendering"}
IMPURE = {
    "IPython",
    "asyncio",
    "concurrent",
    "ipykernel",
    "ipywidgets",
    "jupyter_client",
    "multiprocessing",
    "os",
    "random",
    "secrets",
    "select",
    "selectors",
    "signal",
    "socket",
    "subprocess",
    "threading",
    "time",
    "tornado",
    "traitlets",
    "trio",
    "uuid",
    "zmq",
}

# The one module in which the main thread and trio's thread meet, and what only it may touch.
PORTAL = "connection.portal"
CROSSINGS = {
    "trio.from_thread",
    "trio.lowlevel.current_trio_token",
    "trio.lowlevel.start_guest_run",
}
CROSSING_METHODS = {"run_sync_soon"}


def read_modules(package: Path) -> dict[str, ast.Module]:
    """Returns the syntax tree of every module by its name inside the package."""
    trees = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if parts[-1] == "__init__":
            # Told apart from a plain module for relative imports.
            name = f"{name}.__init__" if name else "__init__"
        trees[name] = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    return trees


def imported_names(module: str, tree: ast.Module) -> Iterator[str]:
    """Yields the absolute dotted name of everything that ``module`` imports.

    ``from a import b`` gives ``a.b``: whether ``b`` is a module does not matter to any rule.
    """
    parents = ["acp_jupyter", *module.split(".")[:-1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = parents[: len(parents) - node.level + 1] if node.level else []
            source = [*base, node.module] if node.module else base
            yield from (".".join([*source, alias.name]) for alias in node.names)


def top(module: str) -> str:
    first = module.split(".")[0]
    return "" if first == "__init__" else first


def inside(name: str) -> str | None:
    """Returns the top-level module of the package that ``name`` leads to, ``None`` for foreign.

    A name that `LAYERS` does not know is one that the package hands out lazily: from within, it
    is imported where it is defined, since nobody can tell its layer here.
    """
    package, _, rest = name.partition(".")
    if package != "acp_jupyter":
        return None
    return "" if rest == "__version__" else rest.split(".")[0]


def layer_breaches(module: str, tree: ast.Module) -> Iterator[str]:
    layer = LAYERS[top(module)]
    for name in imported_names(module, tree):
        target = inside(name)
        allowed = {layer, "root", *MAY_IMPORT[layer]}
        if target is not None and LAYERS.get(target) not in allowed:
            yield f"{module} ({layer}) imports {name} ({LAYERS.get(target, 'public name')})"
        if layer in PURE_LAYERS and name.split(".")[0] in IMPURE:
            yield f"{module} ({layer}) imports {name}, which a pure layer may not"


def crossing_breaches(module: str, tree: ast.Module) -> Iterator[str]:
    for name in imported_names(module, tree):
        if any(name == crossing or name.startswith(f"{crossing}.") for crossing in CROSSINGS):
            yield f"{module} imports {name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (
            node.attr in CROSSING_METHODS or ast.unparse(node) in CROSSINGS
        ):
            yield f"{module}:{node.lineno} uses {ast.unparse(node)}"


MODULES = read_modules(PACKAGE)


def test_every_module_is_assigned_to_a_layer():
    unknown = sorted({top(module) for module in MODULES} - set(LAYERS))
    assert not unknown, f"place these in LAYERS: {unknown}"


@pytest.mark.parametrize("module", [name for name in MODULES if top(name) in LAYERS])
def test_imports_go_downward_only_and_pure_layers_stay_pure(module):
    assert not list(layer_breaches(module, MODULES[module]))


@pytest.mark.parametrize("module", [name for name in MODULES if name != PORTAL])
def test_only_the_portal_crosses_between_the_threads(module):
    assert not list(crossing_breaches(module, MODULES[module]))


def test_importing_the_package_loads_nothing_else():
    code = (
        "import sys; before = set(sys.modules); import acp_jupyter;"
        "print(sorted(set(sys.modules) - before - {'acp_jupyter', '__future__'}))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=PACKAGE.parent, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("rendering.html", "from acp_jupyter.connection import portal"),
        ("rendering.html", "from ..connection import portal"),
        ("rendering.__init__", "from ..connection.portal import Portal"),
        ("connection.portal", "import acp_jupyter.rendering.html"),
        ("protocol.jsonrpc", "from .. import session"),
        ("services.files", "def f():\n    from acp_jupyter.client import Agent"),
        ("client", "from .kernel import app"),
        ("demo_agent.agent", "from acp_jupyter.protocol import methods"),
        ("session.turn", "from time import monotonic"),
        ("session.turn", "import os.path"),
        ("protocol.jsonrpc", "import trio"),
        ("services.files", "from acp_jupyter import connect"),
    ],
)
def test_a_breach_of_the_layers_is_seen_in_each_form_of_import(module, source):
    assert len(list(layer_breaches(module, ast.parse(source)))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "from trio import from_thread",
        "import trio.from_thread",
        "import trio\ntrio.from_thread.run(f)",
        "from trio.lowlevel import current_trio_token",
        "token.run_sync_soon(f)",
    ],
)
def test_a_crossing_outside_the_portal_is_seen(source):
    assert list(crossing_breaches("client", ast.parse(source)))
