"""The kernel "ACP Agent": a cell is a prompt."""
