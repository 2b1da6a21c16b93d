"""An MCP server on the official SDK, over stdio: one tool, which tells a variable it was given."""

from __future__ import annotations

import os

from mcp.server import MCPServer

server = MCPServer("peer")


@server.tool()
def who() -> str:
    """Who was meant."""
    return f"for {os.environ['WHO']}"


if __name__ == "__main__":
    server.run()
