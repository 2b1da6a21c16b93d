"""What the agent kernel and the extension share: the client, how to show, and whom to ask."""
