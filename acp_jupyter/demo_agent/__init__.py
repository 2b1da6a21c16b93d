"""The bundled agent: a real ACP agent (v1, and v2 where it is asked for) on stdio, without network
or model.

``python -m acp_jupyter.demo_agent`` starts it. It understands a small language of requests and
serves each with the means of the protocol, so it is what people learn the tool on and what the
tests run against. The same prompt in a fresh session gives the same answer: no times, no random
ids. It needs nothing but the standard library and starts in well under 150 ms.

A prompt is one request a line, or several separated by ``;``, run in order (``\\;`` is a plain
semicolon). What is no request is plain text. A leading ``/`` is allowed everywhere.

================================= ===============================================================
``help``                          the list of requests
``plan A, B!, C``                 a plan; its entries complete as the next requests run
                                  (``!`` marks high priority)
``think TEXT``                    a thought
``read FILE``                     reads a file, by the client if it offers that
``write FILE: TEXT``              writes a file after asking (``\\n``, ``\\t``, ``\\\\`` in TEXT)
``edit FILE: OLD -> NEW``         replaces OLD once, after asking
``delete FILE``                   deletes a file after asking
``search TEXT``                   finds TEXT in the files of the session's directories
``run COMMAND``                   runs a command after asking, in the client's terminal if offered
``ask QUESTION? A | B``           asks a question, by a form if the client offers that
``permissions N``                 N questions for permission at once
``show image|audio|link|resource``  a content block of that kind
``table``, ``markdown``           Markdown samples
``count N``, ``text N``           N chunks; an answer of N characters
``slow N``, ``wait``              N steps of 0.1 s; silence until cancelled
``usage``                         tokens and cost so far
``mode ID``, ``title TEXT``       change the session's mode (ask, trust, plan) or title
``commands``                      advertise the slash commands again
``notice TEXT``, ``compact``      a notice; a compaction of the context
``unknown``                       an update of a kind that no client knows
``fail``, ``refuse``              a JSON-RPC error; the stop reason ``refusal``
``max tokens``, ``max requests``  the stop reasons ``max_tokens`` and ``max_turn_requests``
``crash``                         the process exits with status 17 in mid-turn
``stderr TEXT``                   a line on standard error
================================= ===============================================================

Environment:
    ``ACP_DEMO_STORE``: the directory that keeps the sessions; by default
    ``acp-jupyter/demo-agent`` in the user's state directory.
    ``ACP_DEMO_AUTH=1``: sessions need ``authenticate`` with the method ``demo`` first.
"""

from __future__ import annotations

__all__ = ["VERSION", "main"]

VERSION = "1.0.0"


def main(argv: list[str] | None = None) -> int:
    """Serve one client on stdin and stdout until stdin ends.

    Args:
        argv: arguments without the program's name; ``sys.argv[1:]`` when absent.

    Returns:
        The exit status: 0 after the end of stdin, 2 for an unknown argument.
    """
    import sys

    arguments = sys.argv[1:] if argv is None else argv
    if arguments and arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 0
    if arguments and arguments[0] == "--version":
        print(VERSION)
        return 0
    if arguments:
        print(
            f"acp-jupyter agent: unknown argument {arguments[0]!r}; "
            "it speaks ACP on stdin and stdout and takes only --help and --version",
            file=sys.stderr,
        )
        return 2
    from acp_jupyter.demo_agent.agent import serve

    return serve()
