"""The agent that replays a recording: a program of its own, which speaks ACP on stdio.

``python -m acp_jupyter.replay_agent FILE --connection N [--speed full|original]`` says what the
agent of that connection said, when the client says what it said then. It reads the file and nothing
else, and neither runs nor writes anything: whatever a recording asks for, the client decides.
"""

from __future__ import annotations

__all__ = ["main"]


def main(argv: list[str] | None = None) -> int:
    """Replay one connection; returns the exit status: that of the recorded agent, if it ended.

    Args:
        argv: arguments without the program's name; ``sys.argv[1:]`` when absent.
    """
    import argparse
    import sys

    from ..errors import ACPError
    from .player import play

    parser = argparse.ArgumentParser(prog="acp_jupyter.replay_agent")
    parser.add_argument("file")
    parser.add_argument("--connection", type=int, default=1)
    parser.add_argument("--speed", choices=["full", "original"], default="full")
    arguments = parser.parse_args(argv)
    try:
        return play(arguments.file, arguments.connection, original=arguments.speed == "original")
    except ACPError as error:
        sys.stderr.write(f"{error}\n")
    except OSError as error:
        sys.stderr.write(f"the recording {arguments.file} cannot be read: {error}\n")
    return 1
