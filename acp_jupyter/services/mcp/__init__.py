"""MCP servers that agents are told to connect to: read, shown, allowed, made ready to be sent."""
