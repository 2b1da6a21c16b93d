"""One agent through all scenarios: prints its row of the matrix as JSON.

python -m tests.interop.one NAME INSTALLED-FOLDER
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from tests.interop.agents import AGENTS, Place
from tests.interop.model_server import Model
from tests.interop.scenarios import Bench, run_all


def main() -> None:
    name, installed = sys.argv[1:3]
    other = next(agent for agent in AGENTS if agent.name == name)
    with tempfile.TemporaryDirectory() as made, Model() as model:
        base = Path(made).resolve()
        home, work = base / "home", base / "work"
        home.mkdir()
        work.mkdir()
        place = Place(Path(installed), home, model.url)
        argv, env = other.start(place)
        environ = {"HOME": str(home), **env}
        bench = Bench(argv, environ, work, model, protocol=other.protocol, mode=other.mode)
        cells = run_all(bench)
        row = {
            "agent": name,
            # Without a name of its own it is called after its program.
            "says": "" if bench.name == Path(argv[-1]).name else bench.name,
            "protocol": other.protocol,
            "cells": cells,
            "asked": model.asked,
            "unknown": sorted(set(model.unknown)),
        }
    print(json.dumps(row))


if __name__ == "__main__":
    main()
