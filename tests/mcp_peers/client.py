"""An MCP client on the official SDK: starts a server over stdio, and prints what its tools say.

Run as ``python client.py MODES SERVER CALLS``: "auto", "legacy" or both with a comma, an item of
``mcpServers``, and a list of ``[tool, arguments]``, both as JSON. Prints one line of JSON, for each
mode: the version, the tools, and the results, each a list of texts or media types after whether it
failed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from mcp import Client, StdioServerParameters

LIMIT = 60.0


async def talk(mode: Any, server: dict[str, Any], calls: list[Any]) -> dict[str, Any]:
    env = {item["name"]: item["value"] for item in server["env"]}
    started = StdioServerParameters(command=server["command"], args=server["args"], env=env)
    async with Client(started, mode=mode) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        results = []
        for name, arguments in calls:
            found: Any = await client.call_tool(name, arguments)
            shown = [b.text if b.type == "text" else b.mime_type for b in found.content]
            results.append([bool(found.is_error), *shown])
        return {"version": client.protocol_version, "tools": tools, "results": results}


async def main() -> None:
    server, calls = json.loads(sys.argv[2]), json.loads(sys.argv[3])
    modes = sys.argv[1].split(",")
    heard = [await asyncio.wait_for(talk(mode, server, calls), LIMIT) for mode in modes]
    print(json.dumps(heard))


if __name__ == "__main__":
    asyncio.run(main())
